// LoadedLibrary: a vendor library, loaded on first use. cuBLASLt and cuDNN take up to a GiB;
// programs that plan, print or run on the CPU do not load them, and start if they are not
// installed.
#pragma once

#include <cstddef>
#include <string>

namespace tessera {

struct VendorLibrary {
  std::string product;  // "cuBLASLt", for messages
  std::string name;     // file name to load: "libcublasLt.so.13"
  std::string folder;   // its folder at build time
  size_t built = 0;     // version at build time: 130100 is 13.1.0
  std::string install;  // remedy if missing: "install ... of major version 13"
};

class LoadedLibrary {
 public:
  // Loads the library: from the loader's search path, else from its folder at build time. Throws
  // DeviceError, naming that folder, if there is none.
  explicit LoadedLibrary(VendorLibrary about);

  // Sets a pointer to the function of that name. Throws VersionMismatch if there is none.
  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(address_of(name));
  }
  // Throws VersionMismatch for another major version than at build time, or for a version older
  // than `least`. Warns if the version is older than at build time.
  void check_version(size_t running, size_t least = 0) const;
  // Returns the path of the library; known once a function was found.
  const std::string& file() const { return file_; }

 private:
  void* address_of(const char* name);

  const VendorLibrary about_;
  void* handle_ = nullptr;  // never closed: contexts may outlive main
  std::string file_;
};

}  // namespace tessera
