#include "tessera/models/weights_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hdf5.h>
#include <unistd.h>
#include <zlib.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr int kFormatVersion = 1;
constexpr char kFormat[] = "tessera weights";

// The file ends with a line of its own behind the HDF5 data, which HDF5 does not look at: the
// CRC-32 of all bytes before it. HDF5 believes most of what a damaged file says; so damage is found
// before HDF5 sees it. A file written or changed by another program has no such line and is taken
// as is.
constexpr char kTrailer[] = "tessera crc32 {:08x}\n";
constexpr size_t kTrailerBytes = sizeof("tessera crc32 12345678\n") - 1;
constexpr size_t kTrailerDigits = sizeof("tessera crc32 ") - 1;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw CheckpointError(fmt::format("weights '{}': {}", path, what));
}

std::string system_error() { return std::strerror(errno); }

// One user of HDF5 at a time, and nothing printed on standard error.
class Quiet {
 public:
  Quiet() : lock_(mutex()) {
    H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Quiet() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  static std::mutex& mutex() {
    static std::mutex all;
    return all;
  }
  std::lock_guard<std::mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

// An HDF5 identifier that closes itself.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  operator hid_t() const { return id_; }
  bool ok() const { return id_ >= 0; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

// What HDF5 says went wrong, in its innermost words.
std::string hdf5_error() {
  std::string text = "HDF5 gives no reason";
  auto take = [](unsigned n, const H5E_error2_t* error, void* into) -> herr_t {
    if (n == 0 && error->desc) *static_cast<std::string*>(into) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take, &text);
  return text;
}

hid_t memory_type(const std::string& dtype) {
  return dtype == "float32" ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
}

std::string text_of(const ArraySpec& array) {
  return fmt::format("{} [{}]", array.dtype, fmt::join(array.shape, "x"));
}

uint32_t crc_of(const unsigned char* bytes, size_t count, uint32_t before = 0) {
  return static_cast<uint32_t>(crc32_z(before, bytes, count));
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

void check_crc(const std::string& path) {
  File file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) fail(path, "cannot be opened: " + system_error());
  std::error_code error;
  size_t size = std::filesystem::file_size(path, error);
  if (error) fail(path, "cannot be read: " + error.message());
  if (size < kTrailerBytes) fail(path, fmt::format("is damaged: it has only {} bytes", size));
  char trailer[kTrailerBytes + 1] = {};
  size_t end = size - kTrailerBytes;
  if (std::fseek(file.get(), static_cast<long>(end), SEEK_SET) != 0 ||
      std::fread(trailer, 1, kTrailerBytes, file.get()) != kTrailerBytes) {
    fail(path, "cannot be read: " + system_error());
  }
  if (std::memcmp(trailer, kTrailer, kTrailerDigits) != 0) return;
  std::rewind(file.get());
  std::vector<unsigned char> part(size_t{1} << 16);
  uint32_t crc = 0;
  for (size_t left = end, got; left > 0; left -= got) {
    got = std::fread(part.data(), 1, std::min(part.size(), left), file.get());
    if (got == 0) fail(path, "cannot be read: " + system_error());
    crc = crc_of(part.data(), got, crc);
  }
  if (fmt::format(kTrailer, crc) != trailer) {
    fail(path, "is damaged: its checksum is not that of its bytes; use another copy");
  }
}

void write_attributes(hid_t file, const std::string& path) {
  Handle scalar(H5Screate(H5S_SCALAR), H5Sclose);
  Handle text(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(text, sizeof(kFormat) - 1);
  Handle format(H5Acreate2(file, "format", text, scalar, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  Handle version(
      H5Acreate2(file, "format_version", H5T_STD_I32LE, scalar, H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  if (!format.ok() || H5Awrite(format, text, kFormat) < 0 || !version.ok() ||
      H5Awrite(version, H5T_NATIVE_INT, &kFormatVersion) < 0) {
    fail(path, "cannot be written: " + hdf5_error());
  }
}

void write_array(hid_t file, const std::string& path, const ConstArray& array) {
  std::vector<hsize_t> shape(array.shape.begin(), array.shape.end());
  Handle space(shape.empty()
                   ? H5Screate(H5S_SCALAR)
                   : H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr),
               H5Sclose);
  hid_t type = array.dtype == "float32" ? H5T_IEEE_F32LE : H5T_IEEE_F64LE;
  Handle timeless(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(timeless, false);  // equal weights give equal files
  Handle data(H5Dcreate2(file, array.name.c_str(), type, space, H5P_DEFAULT, timeless, H5P_DEFAULT),
              H5Dclose);
  if (!data.ok() ||
      H5Dwrite(data, memory_type(array.dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, array.data) < 0) {
    fail(path, fmt::format("'{}' cannot be written: {}", array.name, hdf5_error()));
  }
}

void check_writable(const std::string& path, std::span<const ConstArray> arrays) {
  std::vector<std::string> names;
  for (const ConstArray& array : arrays) {
    const std::string& name = array.name;
    if (name.empty() || name == "." || name.find('/') != std::string::npos) {
      fail(path, fmt::format("'{}' cannot be the name of an array", name));
    }
    if (array.dtype != "float32" && array.dtype != "float64") {
      fail(path,
           fmt::format("'{}' has dtype {}; float32 and float64 can be written", name, array.dtype));
    }
    if (std::any_of(array.shape.begin(), array.shape.end(), [](int64_t n) { return n < 0; })) {
      fail(path, fmt::format("'{}' has the shape [{}]", name, fmt::join(array.shape, "x")));
    }
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail(path, fmt::format("the name '{}' is given twice", *twice));
}

// The bytes of the HDF5 file, made in memory: HDF5 1.10 crashes when the program ends if it could
// not write a file (a full disk), so it is not let near one.
std::vector<unsigned char> hdf5_image(const std::string& path, std::span<const ConstArray> arrays) {
  Quiet quiet;
  constexpr size_t kGrowth = size_t{1} << 20;
  Handle in_memory(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fapl_core(in_memory, kGrowth, /*backing_store=*/false);
  Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, in_memory), H5Fclose);
  if (!file.ok()) fail(path, "cannot be made: " + hdf5_error());
  write_attributes(file, path);
  for (const ConstArray& array : arrays) write_array(file, path, array);
  if (H5Fflush(file, H5F_SCOPE_GLOBAL) < 0) fail(path, "cannot be made: " + hdf5_error());
  ssize_t size = H5Fget_file_image(file, nullptr, 0);
  std::vector<unsigned char> image(size < 0 ? 0 : static_cast<size_t>(size));
  if (size <= 0 || H5Fget_file_image(file, image.data(), image.size()) != size) {
    fail(path, "cannot be made: " + hdf5_error());
  }
  return image;
}

// Writes the bytes and the trailer, and waits until the disk has them.
void write_file(const std::string& path, const std::vector<unsigned char>& image) {
  File file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (!file) fail(path, "cannot be made: " + system_error());
  std::string trailer = fmt::format(kTrailer, crc_of(image.data(), image.size()));
  if (std::fwrite(image.data(), 1, image.size(), file.get()) != image.size() ||
      std::fwrite(trailer.data(), 1, trailer.size(), file.get()) != trailer.size() ||
      std::fflush(file.get()) != 0 || fsync(fileno(file.get())) != 0) {
    fail(path, "cannot be written: " + system_error());
  }
}

// So that the new name outlives a power failure. Best effort: not every file system can.
void sync_folder(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  int id = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (id < 0) return;
  fsync(id);
  close(id);
}

// Reads the list of arrays, and reads arrays, from a file that is open.
class Reader {
 public:
  explicit Reader(const std::string& path)
      : path_(path),
        file_((check_crc(path), H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT)), H5Fclose) {
    if (!file_.ok()) fail(path, "is no HDF5 file, or a damaged one: " + hdf5_error());
    check_version();
  }

  std::vector<ArraySpec> list() const {
    std::vector<std::string> names;
    auto take = [](hid_t, const char* name, const H5L_info_t* link, void* into) -> herr_t {
      if (link->type != H5L_TYPE_HARD) return -1;  // a link could lead into another file
      static_cast<std::vector<std::string>*>(into)->push_back(name);
      return 0;
    };
    if (H5Literate(file_, H5_INDEX_NAME, H5_ITER_INC, nullptr, take, &names) < 0) {
      fail(path_, "its list of arrays cannot be read, or has links: " + hdf5_error());
    }
    std::vector<ArraySpec> arrays;
    for (const std::string& name : names) arrays.push_back(spec(name));
    std::sort(arrays.begin(), arrays.end(),
              [](const ArraySpec& a, const ArraySpec& b) { return a.name < b.name; });
    return arrays;
  }

  void read(const MutableArray& array) const {
    Handle data(H5Dopen2(file_, array.name.c_str(), H5P_DEFAULT), H5Dclose);
    if (!data.ok() ||
        H5Dread(data, memory_type(array.dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, array.data) < 0) {
      fail(path_, fmt::format("'{}' cannot be read: {}", array.name, hdf5_error()));
    }
  }

 private:
  void check_version() const {
    if (H5Aexists(file_, "format_version") <= 0) return;
    Handle attribute(H5Aopen(file_, "format_version", H5P_DEFAULT), H5Aclose);
    Handle space(H5Aget_space(attribute), H5Sclose);
    int version = 0;
    if (!attribute.ok() || H5Sget_simple_extent_npoints(space) != 1 ||
        H5Aread(attribute, H5T_NATIVE_INT, &version) < 0) {
      fail(path_, "its format_version cannot be read: " + hdf5_error());
    }
    if (version < 1 || version > kFormatVersion) {
      fail(path_, fmt::format("has the format version {}, this program reads up to {}", version,
                              kFormatVersion));
    }
  }

  ArraySpec spec(const std::string& name) const {
    ArraySpec array{name, "", {}};
    Handle object(H5Oopen(file_, name.c_str(), H5P_DEFAULT), H5Oclose);
    if (!object.ok()) fail(path_, fmt::format("'{}' cannot be read: {}", name, hdf5_error()));
    if (H5Iget_type(object) != H5I_DATASET) {
      fail(path_,
           fmt::format("'{}' is a group, not an array; names are dotted, at the root", name));
    }
    Handle type(H5Dget_type(object), H5Tclose), space(H5Dget_space(object), H5Sclose);
    if (H5Tequal(type, H5T_IEEE_F32LE) > 0 || H5Tequal(type, H5T_IEEE_F32BE) > 0) {
      array.dtype = "float32";
    } else if (H5Tequal(type, H5T_IEEE_F64LE) > 0 || H5Tequal(type, H5T_IEEE_F64BE) > 0) {
      array.dtype = "float64";
    } else {
      fail(path_, fmt::format("'{}' is neither float32 nor float64", name));
    }
    hsize_t shape[H5S_MAX_RANK];
    int rank = H5Sget_simple_extent_dims(space, shape, nullptr);
    if (rank < 0) fail(path_, fmt::format("'{}' has no shape: {}", name, hdf5_error()));
    array.shape.assign(shape, shape + rank);
    return array;
  }

  const std::string& path_;
  Handle file_;
};

// Every difference between what is wanted and what is there, one a line.
std::string differences(std::span<const MutableArray> wanted, const std::vector<ArraySpec>& found) {
  std::map<std::string, const ArraySpec*> there;
  for (const ArraySpec& array : found) there[array.name] = &array;
  std::string text;
  for (const MutableArray& array : wanted) {
    auto it = there.find(array.name);
    if (it == there.end()) {
      text += fmt::format("\n  missing: '{}', {}", array.name, text_of(array));
      continue;
    }
    if (it->second->dtype != array.dtype || it->second->shape != array.shape) {
      text += fmt::format("\n  different: '{}' is {} in the file, but {} in the model", array.name,
                          text_of(*it->second), text_of(array));
    }
    there.erase(it);
  }
  for (const auto& [name, array] : there) {
    text += fmt::format("\n  too many: '{}', {}", name, text_of(*array));
  }
  return text;
}

}  // namespace

void write_weights(const std::string& path, std::span<const ConstArray> arrays) {
  check_writable(path, arrays);
  std::vector<unsigned char> image = hdf5_image(path, arrays);
  std::string partial = path + ".partial";
  try {
    write_file(partial, image);
    if (std::rename(partial.c_str(), path.c_str()) != 0) {
      fail(path, "cannot be replaced: " + system_error());
    }
  } catch (...) {
    std::remove(partial.c_str());
    throw;
  }
  sync_folder(path);
}

void read_weights(const std::string& path, std::span<const MutableArray> arrays) {
  Quiet quiet;
  Reader reader(path);
  std::string wrong = differences(arrays, reader.list());
  if (!wrong.empty()) fail(path, "does not fit the model:" + wrong);
  for (const MutableArray& array : arrays) reader.read(array);
}

std::vector<ArraySpec> list_weights(const std::string& path) {
  Quiet quiet;
  return Reader(path).list();
}

}  // namespace tessera
