// File: reads golden values (README.md describes the files). Every function throws
// std::runtime_error, naming file and object, if the requested object is missing.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <hdf5.h>

namespace tessera::golden {

// Numbers of any type, converted to double.
struct Array {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

class File {
 public:
  explicit File(const std::string& path) : path_(path) {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    file_ = check(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "file");
  }
  ~File() { H5Fclose(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Returns the sorted names of the groups and data sets in a group; "/" is the outermost.
  std::vector<std::string> members(const std::string& group) const {
    std::vector<std::string> names;
    const auto note = [](hid_t, const char* name, const H5L_info_t*, void* list) -> herr_t {
      static_cast<std::vector<std::string>*>(list)->push_back(name);
      return 0;
    };
    const Object at(*this, group);
    check(H5Literate(at.id, H5_INDEX_NAME, H5_ITER_INC, nullptr, note, &names), group);
    return names;
  }

  bool has(const std::string& path) const {
    return H5Lexists(file_, path.c_str(), H5P_DEFAULT) > 0;
  }
  bool has_attribute(const std::string& object, const std::string& name) const {
    return H5Aexists_by_name(file_, object.c_str(), name.c_str(), H5P_DEFAULT) > 0;
  }

  Array read(const std::string& path) const {
    const Object data(*this, path);
    const hid_t space = check(H5Dget_space(data.id), path);
    Array array = empty_array(space);
    H5Sclose(space);
    check(H5Dread(data.id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, array.values.data()),
          path);
    return array;
  }

  // Returns the strings of a data set.
  std::vector<std::string> texts(const std::string& path) const {
    const Object data(*this, path);
    const hid_t type = check(H5Dget_type(data.id), path),
                space = check(H5Dget_space(data.id), path);
    const size_t size = H5Tget_size(type), count = empty_array(space).values.size();
    std::vector<char> bytes(size * count + 1);
    check(H5Dread(data.id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), path);
    H5Sclose(space);
    H5Tclose(type);
    std::vector<std::string> list;
    for (size_t i = 0; i < count; ++i) list.push_back(padded(bytes.data() + i * size, size));
    return list;
  }

  // Attributes.
  std::vector<double> numbers(const std::string& object, const std::string& name) const {
    const Attribute attribute(*this, object, name);
    const hid_t space = check(H5Aget_space(attribute.id), object + "@" + name);
    Array array = empty_array(space);
    H5Sclose(space);
    check(H5Aread(attribute.id, H5T_NATIVE_DOUBLE, array.values.data()), object + "@" + name);
    return array.values;
  }
  double number(const std::string& object, const std::string& name) const {
    return numbers(object, name).at(0);
  }
  std::string text(const std::string& object, const std::string& name) const {
    const Attribute attribute(*this, object, name);
    const hid_t type = check(H5Aget_type(attribute.id), object + "@" + name);
    const size_t size = H5Tget_size(type);
    std::vector<char> bytes(size + 1);
    const herr_t result = H5Aread(attribute.id, type, bytes.data());
    H5Tclose(type);
    check(result, object + "@" + name);
    return padded(bytes.data(), size);
  }

 private:
  struct Object {
    Object(const File& file, const std::string& path)
        : id(file.check(H5Oopen(file.file_, path.c_str(), H5P_DEFAULT), path)) {}
    ~Object() { H5Oclose(id); }
    Object(const Object&) = delete;
    hid_t id;
  };
  struct Attribute {
    Attribute(const File& file, const std::string& object, const std::string& name)
        : id(file.check(
              H5Aopen_by_name(file.file_, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
              object + "@" + name)) {}
    ~Attribute() { H5Aclose(id); }
    Attribute(const Attribute&) = delete;
    hid_t id;
  };

  template <class Id>
  Id check(Id id, const std::string& what) const {
    if (id < 0) throw std::runtime_error(path_ + ": cannot read " + what);
    return id;
  }
  static std::string padded(const char* bytes, size_t size) {
    std::string text(bytes, size);
    return text.substr(0, text.find('\0'));
  }
  static Array empty_array(hid_t space) {
    std::vector<hsize_t> extents(static_cast<size_t>(H5Sget_simple_extent_ndims(space)));
    H5Sget_simple_extent_dims(space, extents.data(), nullptr);
    Array array;
    array.shape.assign(extents.begin(), extents.end());
    array.values.resize(static_cast<size_t>(H5Sget_simple_extent_npoints(space)));
    return array;
  }

  std::string path_;
  hid_t file_ = -1;
};

}  // namespace tessera::golden
