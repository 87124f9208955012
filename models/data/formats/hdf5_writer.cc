#include "tessera/models/data/formats/hdf5_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <unistd.h>

#include "tessera/models/data/formats/hdf5_lock.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/files/file_system.h"

namespace tessera {

namespace {

constexpr unsigned kGzipLevel = 4;

Hdf5Id text_type(size_t bytes) {
  Hdf5Id type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type, bytes);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

size_t bytes_of(const ArraySpec& array) {
  size_t bytes = array.dtype.ends_with("64") ? 8 : array.dtype.ends_with("32") ? 4 : 1;
  for (int64_t extent : array.shape) bytes *= static_cast<size_t>(extent);
  return bytes;
}

Hdf5Id type_of(const ArraySpec& array) {
  if (array.dtype == "text") return text_type(static_cast<size_t>(array.shape.at(0)));
  const std::pair<const char*, hid_t> known[] = {{"uint8", H5T_STD_U8LE},
                                                 {"int32", H5T_STD_I32LE},
                                                 {"int64", H5T_STD_I64LE},
                                                 {"float32", H5T_IEEE_F32LE},
                                                 {"float64", H5T_IEEE_F64LE}};
  for (const auto& [name, type] : known)
    if (array.dtype == name) return Hdf5Id(H5Tcopy(type));
  throw Error(fmt::format("'{}': dtype '{}' is not supported", array.name, array.dtype));
}

// Returns the array's shape; one element for a string.
Hdf5Id space_of(const ArraySpec& array) {
  if (array.dtype == "text" || array.shape.empty()) return Hdf5Id(H5Screate(H5S_SCALAR));
  const std::vector<hsize_t> sizes(array.shape.begin(), array.shape.end());
  return Hdf5Id(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr));
}

}  // namespace

struct Hdf5Writer::Impl {
  std::string path;
  Hdf5Id file, begun, begun_type;
  std::vector<hsize_t> next, shape;  // position of append() in the begun array, and its shape
  size_t row_bytes = 0, chunks = 0;  // row_bytes: 0 if space is reserved already

  template <class Result>
  Result check(Result result) const {
    if (result < 0) fail(hdf5_library_error());
    return result;
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw OutputError(fmt::format("'{}' cannot be written: {}", path, why));
  }

  // Reserves disk space for `bytes` and for the data that libhdf5 has still to write: if its writes
  // fail, it cannot close the file, and crashes when the process ends.
  void reserve(size_t bytes) {
    constexpr size_t kOwn = size_t{256} << 10, kOfAChunk = 64;
    hsize_t size = 0;
    void* handle = nullptr;
    check(H5Fget_filesize(file, &size));
    check(H5Fget_vfd_handle(file, H5P_DEFAULT, &handle));
    const int error = ::posix_fallocate(*static_cast<int*>(handle), static_cast<off_t>(size),
                                        static_cast<off_t>(bytes + kOwn + kOfAChunk * chunks));
    if (error == ENOSPC || error == EFBIG || error == EDQUOT || error == EIO)
      fail(std::strerror(error));
  }

  Hdf5Id group(const std::string& name) const {
    if (name.empty()) return Hdf5Id(check(H5Gopen2(file, "/", H5P_DEFAULT)));
    if (check(H5Lexists(file, name.c_str(), H5P_DEFAULT)) > 0)
      return Hdf5Id(check(H5Gopen2(file, name.c_str(), H5P_DEFAULT)));
    return Hdf5Id(check(H5Gcreate2(file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT)));
  }

  // Pads each string to `longest` bytes.
  void texts(hid_t group, const std::string& name, std::span<const std::string> list,
             size_t longest) const {
    std::string bytes;
    for (const std::string& text : list) bytes += text + std::string(longest - text.size(), '\0');
    const hsize_t count = list.size();
    const Hdf5Id type = text_type(longest), space(H5Screate_simple(1, &count, nullptr));
    const Hdf5Id made(
        check(H5Acreate2(group, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT)));
    if (count > 0) check(H5Awrite(made, type, bytes.data()));
  }

  // Stores no times, because they would make the bytes of every file differ.
  Hdf5Id create(const ArraySpec& array, hid_t type, int64_t rows) const {
    const Hdf5Id space = space_of(array), creation(H5Pcreate(H5P_DATASET_CREATE)),
                 links(H5Pcreate(H5P_LINK_CREATE)), access(H5Pcreate(H5P_DATASET_ACCESS));
    H5Pset_obj_track_times(creation, false);
    H5Pset_create_intermediate_group(links, 1);
    if (rows > 0) {
      std::vector<hsize_t> chunk = shape;
      chunk[0] = static_cast<hsize_t>(rows);
      check(H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data()));
      check(H5Pset_shuffle(creation));
      check(H5Pset_deflate(creation, kGzipLevel));
      H5Pset_chunk_cache(access, 1, 0, 1);  // only whole chunks are written
    } else {
      H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);  // every value is written
    }
    return Hdf5Id(
        check(H5Dcreate2(file, array.name.c_str(), type, space, links, creation, access)));
  }
};

Hdf5Writer::Hdf5Writer(const std::string& path) : impl_(std::make_unique<Impl>()) {
  const Hdf5Lock turn;
  impl_->path = path;
  impl_->file = Hdf5Id(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  impl_->check<hid_t>(impl_->file);
  try {
    impl_->reserve(0);
  } catch (...) {
    impl_.reset();  // under the lock
    throw;
  }
}

Hdf5Writer::~Hdf5Writer() {
  const Hdf5Lock turn;
  impl_.reset();
}

void Hdf5Writer::attribute(const Hdf5Attribute& attribute) {
  const Hdf5Lock turn;
  const bool is_text = !attribute.text.empty();
  const Hdf5Id type = is_text ? text_type(attribute.text.size()) : Hdf5Id(H5Tcopy(H5T_STD_I32LE));
  const Hdf5Id space(H5Screate(H5S_SCALAR));
  const Hdf5Id made(impl_->check(
      H5Acreate2(impl_->file, attribute.name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT)));
  const void* const value =
      is_text ? static_cast<const void*>(attribute.text.data()) : &attribute.number;
  impl_->check(H5Awrite(made, type, value));
}

void Hdf5Writer::texts(const std::string& group, const std::string& name,
                       const std::vector<std::string>& list) {
  constexpr size_t kMax = 60000;  // bytes of an attribute; the format allows 64 KiB
  const Hdf5Lock turn;
  impl_->reserve(kMax + list.size() * 64);
  const Hdf5Id at = impl_->group(group);
  size_t longest = 1;
  for (const std::string& text : list) longest = std::max(longest, text.size());
  const size_t part = std::max<size_t>(1, kMax / longest);
  if (list.size() <= part) return impl_->texts(at, name, list, longest);
  for (size_t first = 0, i = 0; first < list.size(); first += part, ++i)
    impl_->texts(at, fmt::format("{}{}", name, i),
                 std::span(list).subspan(first, std::min(part, list.size() - first)), longest);
}

void Hdf5Writer::array(const ArraySpec& array, const void* values) {
  const Hdf5Lock turn;
  impl_->reserve(bytes_of(array));
  const Hdf5Id type = type_of(array), data = impl_->create(array, type, 0);
  impl_->check(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
}

void Hdf5Writer::begin(const ArraySpec& array, int64_t chunk) {
  const Hdf5Lock turn;
  impl_->shape.assign(array.shape.begin(), array.shape.end());
  impl_->next.assign(array.shape.size(), 0);
  impl_->begun_type = type_of(array);
  const int64_t rows = array.shape[0];
  impl_->row_bytes = chunk > 0 ? bytes_of(array) / static_cast<size_t>(rows) : 0;
  if (chunk > 0)
    impl_->chunks += static_cast<size_t>((rows + chunk - 1) / chunk);
  else
    impl_->reserve(bytes_of(array));
  impl_->begun = impl_->create(array, impl_->begun_type, chunk);
}

void Hdf5Writer::append(const void* values, int64_t count) {
  const Hdf5Lock turn;
  std::vector<hsize_t> size = impl_->shape;
  size[0] = static_cast<hsize_t>(count);
  if (impl_->row_bytes > 0) impl_->reserve(impl_->row_bytes * static_cast<size_t>(count));
  const Hdf5Id space(H5Dget_space(impl_->begun)),
      memory(H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr));
  impl_->check(H5Sselect_hyperslab(space, H5S_SELECT_SET, impl_->next.data(), nullptr, size.data(),
                                   nullptr));
  impl_->check(H5Dwrite(impl_->begun, impl_->begun_type, memory, space, H5P_DEFAULT, values));
  impl_->next[0] += static_cast<hsize_t>(count);
}

void Hdf5Writer::close() {
  const Hdf5Lock turn;
  impl_->begun = Hdf5Id();
  impl_->check(H5Fflush(impl_->file, H5F_SCOPE_LOCAL));
  hsize_t size = 0;
  impl_->check(H5Fget_filesize(impl_->file, &size));
  impl_->file = Hdf5Id();
  // Cuts off the reserved space that was not needed.
  if (::truncate(impl_->path.c_str(), static_cast<off_t>(size)) != 0)
    impl_->fail(std::strerror(errno));
}

}  // namespace tessera
