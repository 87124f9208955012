#include "tessera/models/data/formats/hdf5_library.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hdf5.h>

#include "tessera/models/data/formats/hdf5_lock.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/files/file_system.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

constexpr int64_t kMaxTexts = 65536, kMaxChunkBytes = int64_t{256} << 20;
constexpr size_t kMaxTextBytes = size_t{16} << 20;
constexpr int kMaxLinks = 64, kMaxDepth = 16;
constexpr size_t kMaxObjects = 1 << 16;
// The maximum number of bytes to which zlib inflates one byte.
constexpr int64_t kMaxInflation = 1032;

std::vector<int64_t> extents(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> sizes(static_cast<size_t>(std::max(rank, 0)));
  if (rank > 0) H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
  std::vector<int64_t> result;
  for (hsize_t size : sizes)
    result.push_back(static_cast<int64_t>(std::min<hsize_t>(size, INT64_MAX)));
  return result;
}

// Returns first times all factors, at most INT64_MAX.
int64_t product(std::span<const int64_t> factors, int64_t first = 1) {
  int64_t all = first;
  for (int64_t factor : factors)
    if (__builtin_mul_overflow(all, factor, &all)) return INT64_MAX;
  return all;
}

Hdf5Id half_type(bool big_endian) {
  Hdf5Id type(H5Tcopy(big_endian ? H5T_IEEE_F32BE : H5T_IEEE_F32LE));
  H5Tset_fields(type, 15, 10, 5, 0, 10);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, 15);
  return type;
}

// Returns nullopt for a type that is no plain number.
std::optional<Hdf5Number> number_of(hid_t type) {
  using Kind = Hdf5Number::Kind;
  const Hdf5Id base(H5Tget_class(type) == H5T_ENUM ? H5Tget_super(type) : H5Tcopy(type));
  const size_t bytes = H5Tget_size(base);
  const H5T_order_t order = H5Tget_order(base);
  const auto is = [&](hid_t little, hid_t big) {
    return H5Tequal(base, order == H5T_ORDER_BE ? big : little) > 0;
  };
  Hdf5Number number{Kind::kFloat, static_cast<int>(bytes), order == H5T_ORDER_BE};
  if (H5Tget_class(base) == H5T_INTEGER) {
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) return {};
    if (H5Tget_precision(base) != 8 * bytes) return {};
    number.kind = H5Tget_sign(base) == H5T_SGN_2 ? Kind::kSigned : Kind::kUnsigned;
    return number;
  }
  const Hdf5Id half = half_type(number.big_endian);
  const bool known =
      is(H5T_IEEE_F32LE, H5T_IEEE_F32BE) || is(H5T_IEEE_F64LE, H5T_IEEE_F64BE) || is(half, half);
  if (H5Tget_class(base) != H5T_FLOAT || !known) return {};
  return number;
}

const char* class_name(hid_t type) {
  static constexpr std::pair<H5T_class_t, const char*> kNames[] = {
      {H5T_INTEGER, "integers of an unusual size"},
      {H5T_FLOAT, "floats of an unusual kind"},
      {H5T_STRING, "strings"},
      {H5T_COMPOUND, "compounds (a table)"},
      {H5T_ENUM, "an enumeration"},
      {H5T_VLEN, "lists of variable length"},
      {H5T_ARRAY, "arrays"},
      {H5T_REFERENCE, "references (such as MATLAB cells)"}};
  for (const auto& [known, name] : kNames)
    if (H5Tget_class(type) == known) return name;
  return "of an opaque or user-defined type";
}

// Returns the path and the attribute, or "", of a place.
std::pair<std::string, std::string> parted(const std::string& place) {
  const size_t at = place.find('@');
  if (at == std::string::npos) return {place, ""};
  return {place.substr(0, at), place.substr(at + 1)};
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::deque<std::string> names_of(const std::string& path) {
  std::deque<std::string> names;
  for (const std::string& name : split(path, '/'))
    if (!name.empty() && name != ".") names.push_back(name);
  return names;
}

// Adds the paths of the data sets in and below a group to `found`, up to `most`.
void walk(const Hdf5Id& group, const std::string& path, int depth, size_t most,
          std::vector<std::string>& found, size_t& objects) {
  std::vector<std::string> names;
  const auto note = [](hid_t, const char* name, const H5L_info_t* link, void* to) -> herr_t {
    auto& list = *static_cast<std::vector<std::string>*>(to);
    if (link->type == H5L_TYPE_HARD) list.emplace_back(name);
    return list.size() < kMaxObjects ? 0 : 1;
  };
  H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, note, &names);
  for (const std::string& name : names) {
    if (found.size() >= most || ++objects > kMaxObjects) return;
    const Hdf5Id object(H5Oopen(group, name.c_str(), H5P_DEFAULT));
    const std::string at = path + "/" + utf8_printable(name);
    if (H5Iget_type(object) == H5I_DATASET) found.push_back(at);
    if (H5Iget_type(object) == H5I_GROUP && depth < kMaxDepth)
      walk(object, at, depth + 1, most, found, objects);
  }
}

// Returns the paths of the first `most` data sets of the file, in the order of their names.
std::vector<std::string> data_sets(const Hdf5Id& root, size_t most) {
  std::vector<std::string> found;
  size_t objects = 0;
  walk(root, "", 0, most, found, objects);
  return found;
}

class LibraryData final : public Hdf5Data {
 public:
  LibraryData(Hdf5DataInfo info, std::shared_ptr<const Hdf5Id> file, Hdf5Id data, Hdf5Id type)
      : Hdf5Data(std::move(info)),
        file_(std::move(file)),
        data_(std::move(data)),
        type_(std::move(type)) {}
  ~LibraryData() override {
    const Hdf5Lock turn;
    const Hdf5Id data = std::move(data_), type = std::move(type_);
  }

  size_t read_chunk(std::span<const int64_t> first, std::span<std::byte> to,
                    uint32_t& skipped) const override {
    const std::vector<hsize_t> at(first.begin(), first.end());
    hsize_t bytes = 0;
    const Hdf5Lock turn;
    if (H5Dget_chunk_storage_size(data_, at.data(), &bytes) < 0 || bytes == 0)
      throw DataError("it is not in the file: it was never written, or its index is damaged");
    if (bytes > to.size())
      throw DataError(
          fmt::format("its stored size is {} bytes, but a chunk of this data set has at most {}",
                      bytes, to.size()));
    if (H5Dread_chunk(data_, H5P_DEFAULT, at.data(), &skipped, to.data()) < 0)
      throw DataError(hdf5_library_error());
    return static_cast<size_t>(bytes);
  }

  void read_rows(int64_t first, int64_t count, std::span<std::byte> to) const override {
    std::vector<hsize_t> begin(info().shape.size()), size(info().shape.begin(), info().shape.end());
    begin[0] = static_cast<hsize_t>(first);
    size[0] = static_cast<hsize_t>(count);
    const Hdf5Lock turn;
    const Hdf5Id space(H5Dget_space(data_));
    const Hdf5Id memory(H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr));
    if (static_cast<size_t>(H5Sget_simple_extent_npoints(memory)) * H5Tget_size(type_) != to.size())
      throw InternalError("the buffer does not have the size of the rows");
    if (H5Sselect_hyperslab(space, H5S_SELECT_SET, begin.data(), nullptr, size.data(), nullptr) <
            0 ||
        H5Dread(data_, type_, memory, space, H5P_DEFAULT, to.data()) < 0)
      throw DataError(hdf5_library_error());
  }

 private:
  const std::shared_ptr<const Hdf5Id> file_;  // stays open
  Hdf5Id data_, type_;
};

}  // namespace

Hdf5File::Hdf5File(const std::string& path) : path_(path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) fail("the file does not exist" + relative_path_help(path));
  if (!std::filesystem::is_regular_file(status)) fail("it is not a regular file");
  bytes_ = static_cast<int64_t>(std::filesystem::file_size(path, error));
  const Hdf5Lock turn;
  const Hdf5Id access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_cache(access, 0, 0, 0, 0);  // no chunks
  H5Pset_sieve_buf_size(access, 0);
  H5AC_cache_config_t metadata;
  metadata.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  H5Pget_mdc_config(access, &metadata);
  metadata.set_initial_size = true;
  metadata.initial_size = metadata.max_size = kHostBytes;
  metadata.min_size = kHostBytes / 4;
  H5Pset_mdc_config(access, &metadata);
  Hdf5Id file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access));
  if (file < 0) fail(hdf5_library_error());
  const auto close = [](const Hdf5Id* id) {
    const Hdf5Lock turn;
    delete id;
  };
  file_ = std::shared_ptr<const Hdf5Id>(new Hdf5Id(std::move(file)), close);
}

void Hdf5File::fail(const std::string& why) const {
  throw DataError(fmt::format("{}: {}", path_, why));
}

void Hdf5File::fail_at(const std::string& place, const std::string& why) const {
  fail(fmt::format("'{}': {}", utf8_printable(place), why));
}

Hdf5Id Hdf5File::root() const { return Hdf5Id(H5Oopen(*file_, "/", H5P_DEFAULT)); }

// Returns the object at `path`, never of another file; an empty Hdf5Id if there is none.
Hdf5Id Hdf5File::find(const std::string& path) const {
  std::deque<std::string> rest = names_of(path);
  Hdf5Id at = root();
  for (int links = 0; !rest.empty();) {
    const std::string name = rest.front();
    rest.pop_front();
    if (H5Iget_type(at) != H5I_GROUP) return Hdf5Id();
    H5L_info_t link;
    if (H5Lexists(at, name.c_str(), H5P_DEFAULT) <= 0 ||
        H5Lget_info(at, name.c_str(), &link, H5P_DEFAULT) < 0)
      return Hdf5Id();
    if (link.type == H5L_TYPE_HARD) {
      Hdf5Id next(H5Oopen(at, name.c_str(), H5P_DEFAULT));
      if (next < 0) fail_at(path, hdf5_library_error());
      at = std::move(next);
      continue;
    }
    if (link.type != H5L_TYPE_SOFT)
      fail_at(path, fmt::format("'{}' is {}; copy the target of the link into the file",
                                utf8_printable(name),
                                link.type == H5L_TYPE_EXTERNAL ? "an external link to another file"
                                                               : "a user-defined link"));
    if (++links > kMaxLinks)
      fail_at(path, fmt::format("it leads over more than {} soft links, maybe a cycle", kMaxLinks));
    std::vector<char> target(std::min<size_t>(link.u.val_size, 4096) + 1);
    H5Lget_val(at, name.c_str(), target.data(), target.size() - 1, H5P_DEFAULT);
    const std::deque<std::string> before = names_of(target.data());
    rest.insert(rest.begin(), before.begin(), before.end());
    if (target[0] == '/') at = root();
  }
  return at;
}

Hdf5Id Hdf5File::need(const std::string& path, bool data_set) const {
  Hdf5Id found = find(path);
  if (found < 0 || (data_set && H5Iget_type(found) != H5I_DATASET))
    fail_at(path, fmt::format("the data set does not exist; the file has {}", listed()));
  return found;
}

std::string Hdf5File::listed() const {
  constexpr size_t kShown = 8;
  std::vector<std::string> all = data_sets(root(), kShown + 1);
  if (all.empty()) return "none";
  const bool more = all.size() > kShown;
  if (more) all.resize(kShown);
  return fmt::format("{}{}", fmt::join(all, ", "), more ? ", ..." : "");
}

bool Hdf5File::has(const std::string& place) const {
  const Hdf5Lock turn;
  const auto [path, name] = parted(place);
  const Hdf5Id object = find(path);
  return object >= 0 && (name.empty() || H5Aexists(object, name.c_str()) > 0);
}

bool Hdf5File::has_floats(const std::string& path) const {
  const Hdf5Lock turn;
  const Hdf5Id data = find(path);
  if (H5Iget_type(data) != H5I_DATASET) return false;
  const Hdf5Id type(H5Dget_type(data)), space(H5Dget_space(data));
  const std::optional<Hdf5Number> number = number_of(type);
  return number && number->kind == Hdf5Number::Kind::kFloat && !extents(space).empty();
}

std::vector<std::string> Hdf5File::list(size_t most) const {
  const Hdf5Lock turn;
  return data_sets(root(), most);
}

void Hdf5File::check_storage(const std::string& path, int64_t creation) const {
  constexpr const char* kRemedy =
      "; copy the values into one file (h5repack, or h5py: f[to] = g[from][()])";
  if (H5Pget_external_count(creation) > 0)
    fail_at(path, std::string("its values are stored in other files (external storage)") + kRemedy);
  if (H5Pget_layout(creation) == H5D_VIRTUAL)
    fail_at(path, std::string("it is a virtual data set, composed of others") + kRemedy);
}

std::vector<Hdf5Filter> Hdf5File::filters_of(const std::string& path, int64_t creation) const {
  std::vector<Hdf5Filter> filters;
  const int count = H5Pget_nfilters(creation);
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0, values[8] = {}, config = 0;
    size_t most = std::size(values);
    char name[64] = "";
    const H5Z_filter_t id = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &most,
                                           values, sizeof name, name, &config);
    if (id == H5Z_FILTER_DEFLATE) {
      filters.push_back({Hdf5Filter::Kind::kGzip});
    } else if (id == H5Z_FILTER_SHUFFLE) {
      filters.push_back({Hdf5Filter::Kind::kShuffle, std::max(1u, values[0])});
    } else if (id == H5Z_FILTER_FLETCHER32) {
      filters.push_back({Hdf5Filter::Kind::kFletcher32});
    } else {
      name[sizeof name - 1] = 0;
      fail_at(path,
              fmt::format("its filters must be gzip, shuffle or fletcher32, but it was written "
                          "with filter {} ({}); convert the file with h5repack -f GZIP=4",
                          static_cast<int>(id), name[0] != 0 ? utf8_printable(name) : "no name"));
    }
  }
  return filters;
}

// Throws unless the file can contain the values, so that no memory is allocated for impossible
// sizes.
void Hdf5File::check_size(const Hdf5DataInfo& info, int64_t data) const {
  const auto element = static_cast<int64_t>(info.type.bytes);
  const int64_t bytes = product(info.shape, element);
  int64_t most = bytes_;
  if (info.chunk.empty()) {
    most = static_cast<int64_t>(std::min(H5Dget_storage_size(data), static_cast<hsize_t>(bytes_)));
  } else {
    const int64_t chunk = product(info.chunk, element);
    if (chunk > kMaxChunkBytes)
      fail_at(info.path,
              fmt::format("its chunks of {} have {} bytes, but at most {} are supported; write "
                          "smaller chunks, such as one image each (h5repack -l CHUNK=)",
                          fmt::join(info.chunk, " x "), chunk, kMaxChunkBytes));
    std::vector<int64_t> counts;
    for (size_t i = 0; i < info.shape.size(); ++i)
      counts.push_back((info.shape[i] - 1) / info.chunk[i] + 1);
    if (product(counts) > bytes_)
      fail_at(info.path,
              fmt::format("its {} chunks do not fit into a file of {} bytes; values are missing",
                          product(counts), bytes_));
    for (const Hdf5Filter& filter : info.filters)
      if (filter.kind == Hdf5Filter::Kind::kGzip) most = product(std::array{most, kMaxInflation});
  }
  if (bytes > most)
    fail_at(info.path, fmt::format("its {} values of type {} do not fit into a file of {} bytes; "
                                   "the file is truncated, or was not written completely",
                                   fmt::join(info.shape, " x "), info.type.name(), bytes_));
}

std::shared_ptr<const Hdf5Data> Hdf5File::open(const std::string& path) const {
  const Hdf5Lock turn;
  Hdf5Id data = need(path, true);
  const Hdf5Id creation(H5Dget_create_plist(data)), space(H5Dget_space(data));
  Hdf5Id type(H5Dget_type(data));
  Hdf5DataInfo info{path_, utf8_printable(path), extents(space), {}, {}, {}, bytes_};
  const std::optional<Hdf5Number> number = number_of(type);
  if (!number)
    fail_at(path, fmt::format("its values are {}, but must be integers of 8 to 64 bits or floats "
                              "of 16, 32 or 64 bits",
                              class_name(type)));
  info.type = *number;
  const size_t rank = info.shape.size();
  const bool empty = H5Sget_simple_extent_type(space) != H5S_SIMPLE || rank < 1 ||
                     *std::ranges::min_element(info.shape) < 1;
  if (empty) fail_at(path, "it has no values");
  if (rank > kMaxAxes)
    fail_at(path,
            fmt::format("it has {} dimensions, but at most {} are supported", rank, kMaxAxes));
  check_storage(path, creation);
  if (H5Pget_layout(creation) == H5D_CHUNKED) {
    std::vector<hsize_t> chunk(rank);
    if (H5Pget_chunk(creation, static_cast<int>(rank), chunk.data()) != static_cast<int>(rank) ||
        *std::ranges::min_element(chunk) < 1)
      fail_at(path, "the shape of its chunks is damaged");
    info.chunk.assign(chunk.begin(), chunk.end());
    info.filters = filters_of(path, creation);
  }
  check_size(info, data);
  if (const haddr_t at = H5Dget_offset(data); info.chunk.empty() && at <= hsize_t{INT64_MAX})
    info.offset = static_cast<int64_t>(at);
  return std::make_shared<LibraryData>(std::move(info), file_, std::move(data), std::move(type));
}

// The values of an attribute or a data set.
struct Hdf5File::Values {
  Hdf5Id object, type, space;
  bool is_attribute;
  int64_t count;
  herr_t read(hid_t as, void* to, hid_t transfer = H5P_DEFAULT) const {
    return is_attribute ? H5Aread(object, as, to)
                        : H5Dread(object, as, H5S_ALL, H5S_ALL, transfer, to);
  }
};

Hdf5File::Values Hdf5File::values(const std::string& place, int64_t least) const {
  const auto [path, name] = parted(place);
  Hdf5Id object = need(path, name.empty());
  const bool is_attribute = !name.empty();
  if (is_attribute) {
    object = Hdf5Id(H5Aopen(object, name.c_str(), H5P_DEFAULT));
    if (object < 0) fail_at(place, "the attribute does not exist");
  } else {
    const Hdf5Id creation(H5Dget_create_plist(object));
    check_storage(place, creation);
    if (H5Pget_nfilters(creation) > 0)
      fail_at(place,
              "it is compressed; write names and other small arrays without compression, or as an "
              "attribute");
  }
  Hdf5Id type(is_attribute ? H5Aget_type(object) : H5Dget_type(object));
  Hdf5Id space(is_attribute ? H5Aget_space(object) : H5Dget_space(object));
  const int64_t count = H5Sget_simple_extent_npoints(space);
  if (count < least || count > kMaxTexts)
    fail_at(place,
            fmt::format("it has {} values, but must have {} to {}", count, least, kMaxTexts));
  return {std::move(object), std::move(type), std::move(space), is_attribute, count};
}

// Returns strings of variable length, which libhdf5 allocates one by one: at most kMaxTextBytes for
// a data set; those of an attribute are in one block of the file, so at most its size.
std::vector<std::string> Hdf5File::variable_texts(const std::string& place,
                                                  const Values& from) const {
  const auto take = [](size_t bytes, void* left) -> void* {
    auto& most = *static_cast<size_t*>(left);
    if (bytes > most) return nullptr;
    most -= bytes;
    return std::malloc(bytes);
  };
  const auto give_back = [](void* text, void*) { std::free(text); };
  size_t left = kMaxTextBytes;
  const Hdf5Id transfer(H5Pcreate(H5P_DATASET_XFER));
  H5Pset_vlen_mem_manager(transfer, take, &left, give_back, nullptr);
  std::vector<char*> pointers(static_cast<size_t>(from.count));
  if (from.read(from.type, pointers.data(), transfer) < 0) fail_at(place, hdf5_library_error());
  std::vector<std::string> texts;
  for (const char* text : pointers) texts.emplace_back(text == nullptr ? "" : text);
  H5Dvlen_reclaim(from.type, from.space, from.is_attribute ? H5P_DEFAULT : hid_t{transfer},
                  pointers.data());
  return texts;
}

std::vector<std::string> Hdf5File::fixed_texts(const std::string& place, const Values& from) const {
  const size_t size = H5Tget_size(from.type), count = static_cast<size_t>(from.count);
  if (size > kMaxTextBytes / count)
    fail_at(place, fmt::format("its strings have {} bytes, but at most {} are supported",
                               size * count, kMaxTextBytes));
  std::vector<char> bytes(size * count);
  if (from.read(from.type, bytes.data()) < 0) fail_at(place, hdf5_library_error());
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i) {
    std::string text(bytes.data() + i * size, size);
    text.resize(std::min(text.find('\0'), size));
    if (H5Tget_strpad(from.type) == H5T_STR_SPACEPAD) text.resize(text.find_last_not_of(' ') + 1);
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<std::string> Hdf5File::texts(const std::string& place, Texts count) const {
  const Hdf5Lock turn;
  const Values from = values(place, count == Texts::any_number ? 0 : 1);
  if (from.count == 0) return {};
  if (H5Tget_class(from.type) != H5T_STRING)
    fail_at(place, fmt::format("its values are {}, not strings", class_name(from.type)));
  std::vector<std::string> texts =
      H5Tis_variable_str(from.type) > 0 ? variable_texts(place, from) : fixed_texts(place, from);
  if (H5Sget_simple_extent_ndims(from.space) == 0) texts = split(std::string(texts[0]), '\n');
  for (std::string& text : texts) text = utf8_printable(text);
  return texts;
}

std::vector<double> Hdf5File::numbers(const std::string& place) const {
  const Hdf5Lock turn;
  const Values from = values(place);
  if (!number_of(from.type))
    fail_at(place, fmt::format("its values are {}, not numbers", class_name(from.type)));
  std::vector<double> numbers(static_cast<size_t>(from.count));
  if (from.read(H5T_NATIVE_DOUBLE, numbers.data()) < 0) fail_at(place, hdf5_library_error());
  return numbers;
}

}  // namespace tessera
