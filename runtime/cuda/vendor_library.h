// A library of the vendor's, loaded when it is first used: cuBLASLt and cuDNN take up to a GiB,
// have no part in programs that plan, print or run on the CPU, and those start where they are not
// installed.
#pragma once

#include <cstddef>
#include <string>

namespace tessera {

struct VendorLibrary {
  std::string product;  // "cuBLASLt", for messages
  std::string name;     // the file that the loader is asked for: "libcublasLt.so.13"
  std::string folder;   // that it was in when this was built
  size_t built = 0;     // version that this was built with: 130100 is 13.1.0
  std::string install;  // what to do where there is none: "install ... of major version 13"
};

class LoadedLibrary {
 public:
  // Loads it: from where the loader looks, else from its folder. Throws DeviceError where there is
  // none, naming that folder.
  explicit LoadedLibrary(VendorLibrary about);

  // Sets a pointer to the function of that name. Throws VersionMismatch where there is none.
  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(address_of(name));
  }
  // Throws VersionMismatch for another major version than this was built with, or one older than
  // `least`; warns of one that is older than what this was built with.
  void check_version(size_t running, size_t least = 0) const;
  // That it was loaded from; known once a function was found.
  const std::string& file() const { return file_; }

 private:
  void* address_of(const char* name);

  const VendorLibrary about_;
  void* handle_ = nullptr;  // never closed: contexts may outlive main
  std::string file_;
};

}  // namespace tessera
