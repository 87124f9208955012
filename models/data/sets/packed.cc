#include "tessera/models/data/sets/packed.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "tessera/models/data/formats/hdf5_library.h"
#include "tessera/models/data/formats/hdf5_lock.h"
#include "tessera/models/data/formats/hdf5_writer.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/data/moments.h"
#include "tessera/models/data/sets/image_files.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/files/file_system.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

static_assert(std::endian::native == std::endian::little);
constexpr char kFormat[] = "tessera data";
constexpr int kVersion = 1;

// The file while it is written; removed unless finish() succeeds.
class Partial {
 public:
  explicit Partial(const std::string& path) : target_(path), path_(path + ".partial") {
    file_ = files_.open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file_ < 0) fail("opened");
  }
  ~Partial() {
    if (file_ < 0) return;
    files_.close(file_);
    files_.unlink(path_.c_str());
  }
  Partial(const Partial&) = delete;
  Partial& operator=(const Partial&) = delete;

  const std::string& path() const { return path_; }
  void finish() {
    check_pack_target(target_, true);  // checks again: the target may have changed
    if (files_.fsync(file_) != 0) fail("synchronised");
    if (files_.rename(path_.c_str(), target_.c_str()) != 0) fail("renamed");
    files_.close(file_);
    file_ = -1;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw OutputError(fmt::format("'{}' cannot be {}: {}", path_, what, std::strerror(errno)));
  }
  FileSystem& files_ = file_system();
  const std::string target_, path_;
  int file_ = -1;
};

// Returns one line per name; control characters become '?'.
std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += printable(name) + '\n';
  if (!text.empty()) text.pop_back();
  return text;
}

// Calls use() with all images, in batches of up to `batch`.
void read_images(const Dataset& data, int64_t batch, int workers,
                 const std::function<void(const Batch&)>& use) {
  Loader loader(std::shared_ptr<const Dataset>(std::shared_ptr<const Dataset>(), &data),
                {.batch = batch, .workers = workers, .prefetch = 2});
  for (int64_t i = 0; i < loader.batches(); ++i) use(loader.next());
}

[[noreturn]] void fail_pack(const std::string& path, const std::string& why) {
  throw DataError(fmt::format("{}: {}", path, why));
}

// A split whose images and labels are contiguous and have the types of a pack.
class Packed : public Dataset {
 public:
  Packed(DatasetInfo info, const Hdf5DataInfo& images, std::vector<int32_t> labels)
      : Dataset(std::move(info)),
        path_(images.file),
        source_(images.file),
        images_(static_cast<uint64_t>(images.offset)),
        labels_(std::move(labels)) {}
  std::vector<MemoryItem> host_buffers() const override {
    return {{name() + " labels", labels_.capacity() * sizeof(int32_t)}};
  }

 private:
  void do_read(int64_t index, uint8_t* image) const override try {
    const auto bytes = static_cast<size_t>(shape().bytes());
    source_.read(images_ + static_cast<uint64_t>(index) * bytes, image, bytes);
  } catch (const Error& error) {
    fail_pack(path_, error.what());
  }
  int64_t do_label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }

  const std::string path_;
  const FileSource source_;
  const uint64_t images_;  // offset of the first in the file
  const std::vector<int32_t> labels_;
};

bool is_plain(const Hdf5File& file, const std::string& split) {
  const std::string images = split + "/images", labels = split + "/labels";
  if (!file.has(images) || !file.has(labels)) return false;
  const auto is = [&](const std::string& path, const Hdf5Number& type, size_t dims) {
    const Hdf5DataInfo info = file.open(path)->info();
    return info.offset >= 0 && info.type == type && info.shape.size() == dims;
  };
  return is(images, {Hdf5Number::Kind::kUnsigned, 1}, 4) &&
         is(labels, {Hdf5Number::Kind::kSigned, 4}, 1);
}

std::vector<int32_t> labels_of(const Hdf5File& file, const std::string& split) {
  const Hdf5DataInfo info = file.open(split + "/labels")->info();
  std::vector<int32_t> labels(static_cast<size_t>(info.shape[0]));
  FileSource(file.path())
      .read(static_cast<uint64_t>(info.offset), labels.data(), labels.size() * sizeof(int32_t));
  return labels;
}

std::shared_ptr<const Dataset> open_split(const Hdf5File& file, const std::string& split,
                                          DatasetInfo info) {
  const Hdf5DataInfo images = file.open(split + "/images")->info();
  std::vector<int32_t> labels = labels_of(file, split);
  const auto& shape = images.shape;
  for (size_t i = 1; i < 4; ++i)
    if (shape[i] > INT_MAX)
      fail_pack(file.path(), fmt::format("'{}/images' has a dimension of {}, which is too large",
                                         split, shape[i]));
  if (static_cast<int64_t>(labels.size()) != shape[0])
    fail_pack(file.path(),
              fmt::format("it has {} {} images, but {} labels", shape[0], split, labels.size()));
  if (shape[3] != 1 && shape[3] != 3)
    fail_pack(
        file.path(),
        fmt::format(
            "'{}/images' is [{}], but images must have 1 or 3 channels in the last dimension{}",
            split, fmt::join(shape, " x "),
            shape[1] == 1 || shape[1] == 3
                ? fmt::format(
                      " of a pack; if the channels come first, set data.images=/{{split}}/images "
                      "data.labels=/{{split}}/labels data.layout=chw")
                : ""));
  info.name = "hdf5 " + split;
  info.shape = {static_cast<int>(shape[1]), static_cast<int>(shape[2]), static_cast<int>(shape[3])};
  info.count = shape[0];
  auto [low, high] = std::minmax_element(labels.begin(), labels.end());
  if (*low < 0 || *high >= info.classes)
    fail_pack(file.path(),
              fmt::format("label {} of image {} is not in [0, {})", *low < 0 ? *low : *high,
                          (*low < 0 ? low : high) - labels.begin(), info.classes));
  return std::make_shared<Packed>(std::move(info), images, std::move(labels));
}

// Reads the class names; without names, counts classes up to the largest training label.
void read_classes(const Hdf5File& file, DatasetInfo& info) {
  constexpr int kMaxClasses = 1 << 24;
  if (file.has("class_names")) {
    info.class_names = file.texts("class_names");
    info.classes = static_cast<int>(info.class_names.size());
    return;
  }
  for (int32_t label : labels_of(file, "train"))
    info.classes = std::max(info.classes, std::min(label, kMaxClasses - 1) + 1);
}

const char* kind_of(fs::file_type type) {
  switch (type) {
    case fs::file_type::directory:
      return "a folder";
    case fs::file_type::symlink:
      return "a link, which would be replaced by a file";
    case fs::file_type::fifo:
      return "a pipe";
    case fs::file_type::socket:
      return "a socket";
    default:
      return "a device";
  }
}

// Throws DataError unless mean is finite, and std above 0 and normal: pixels are divided by std.
void check_normalization(const std::string& path, const Normalization& normalization) {
  const auto check = [&](const char* name, const std::vector<float>& values, auto fits,
                         const char* must) {
    for (size_t c = 0; c < values.size(); ++c)
      if (!fits(values[c]))
        throw DataError(
            fmt::format("{}: '{}' of channel {} is {}, but must be {}; write it again, or leave "
                        "out mean and std",
                        path, name, c, values[c], must));
  };
  check(
      "mean", normalization.mean, [](float v) { return std::isfinite(v); }, "a finite number");
  check(
      "std", normalization.std, [](float v) { return v > 0 && std::isnormal(v); },
      "a finite number above 0, also in float32");
}

// Returns the arrays of a pack, in the order of the file.
std::vector<ArraySpec> arrays_of(const DataSplit& data, const std::string& names) {
  const auto images = [](const Dataset& split) {
    return std::vector<int64_t>{split.count(), split.height(), split.width(), split.channels()};
  };
  const int64_t channels = data.train->channels();
  std::vector<ArraySpec> arrays = {{"train/images", "uint8", images(*data.train)},
                                   {"train/labels", "int32", {data.train->count()}},
                                   {"test/images", "uint8", images(*data.test)},
                                   {"test/labels", "int32", {data.test->count()}},
                                   {"mean", "float32", {channels}},
                                   {"std", "float32", {channels}}};
  if (!names.empty())
    arrays.push_back({"class_names", "text", {static_cast<int64_t>(names.size())}});
  return arrays;
}

// Writes a pack. Chunks of images are small, because reading one image decodes the whole chunk, and
// gzip looks back at most 32 KiB.
void write_arrays(const DataSplit& data, const std::string& names, int workers, bool gzip,
                  const std::function<void(int64_t)>& progress, const std::string& path) {
  constexpr int64_t kChunk = int64_t{64} << 10;
  const std::vector<ArraySpec> arrays = arrays_of(data, names);
  Hdf5Writer writer(path);
  writer.attribute({"format", kFormat});
  writer.attribute({"version", "", kVersion});
  const auto rows_of = [&](const Dataset& split, int64_t bytes) {
    return gzip ? std::clamp<int64_t>(kChunk / bytes, 1, split.count()) : 0;
  };
  // Measures as measured_normalization() does, while the training images are written.
  const bool measures = !data.train->has_normalization();
  const int64_t stride = measuring_stride(data.train->count());
  Moments moments(data.train->channels());
  size_t at = 0;
  int64_t before = 0;
  for (const Dataset* split : {data.train.get(), data.test.get()}) {
    const int64_t bytes = split->shape().bytes(), rows = rows_of(*split, bytes),
                  whole = std::max<int64_t>(1, rows);
    writer.begin(arrays[at++], rows);
    const int64_t most = std::clamp<int64_t>((int64_t{8} << 20) / bytes, 1, 256);  // about 8 MiB
    const int64_t batch = std::max<int64_t>(1, most / whole) * whole;
    read_images(*split, batch, workers, [&](const Batch& images) {
      for (int64_t i = 0; measures && split == data.train.get() && i < images.count; ++i)
        if (images.samples[i] % stride == 0) moments.add(images.images + i * bytes, bytes);
      writer.append(images.images, images.count);
      progress(before + images.first + images.count);
    });
    before += split->count();
    const std::vector<int32_t> labels = labels_of(*split);
    writer.begin(arrays[at++], rows_of(*split, sizeof(int32_t)));
    writer.append(labels.data(), split->count());
  }
  const Normalization normalization =
      measures ? moments.normalization() : data.train->normalization();
  writer.array(arrays[at++], normalization.mean.data());
  writer.array(arrays[at++], normalization.std.data());
  if (at < arrays.size()) writer.array(arrays[at], names.data());
  writer.close();
}

DataSplit open_through_library(const std::string& path, int64_t cache, int readers,
                               const Hdf5Wanted& wanted) {
  const Hdf5Source source{.images = "/{split}/images", .labels = "/{split}/labels", .cache = cache};
  DataSplit data = open_hdf5_set(path, source, readers, "/mean", "/std", wanted);
  if (data.train->has_normalization()) check_normalization(path, data.train->normalization());
  return data;
}

DataSplit open_pack(const std::string& path, int64_t cache, int readers, const Hdf5Wanted& wanted,
                    bool test_only) try {
  const Hdf5File file(path);
  if (file.has("@format")) {
    if (const std::string format = file.texts("@format")[0]; format != kFormat)
      fail_pack(path, fmt::format("its format is '{}', but must be '{}'", format, kFormat));
    if (const double version = file.has("@version") ? file.numbers("@version")[0] : 0;
        version > kVersion)
      fail_pack(path, fmt::format("its version is {}, but this program reads only up to version {}",
                                  version, kVersion));
  }
  if (const char* images = test_only ? "/test/images" : "/train/images"; !file.has(images))
    fail_pack(path, fmt::format("'{}' is missing; if another program wrote this file, set "
                                "data.images and data.labels to the paths in it",
                                images));
  if (!is_plain(file, "test") || (!test_only && !is_plain(file, "train")))
    return open_through_library(path, cache, readers, wanted);
  DatasetInfo info;
  read_classes(file, info);
  info.normalization = {floats_of(file, "mean"), floats_of(file, "std")};
  check_normalization(path, info.normalization);
  auto test = open_split(file, "test", info);
  if (test_only) return {nullptr, test};
  auto train = open_split(file, "train", info);
  if (train->shape() != test->shape()) fail_pack(path, "train and test images differ in shape");
  return {train, test};
} catch (const DataError&) {
  throw;
} catch (const Error& error) {  // an invalid data set
  fail_pack(path, error.what());
}

}  // namespace

void check_pack_target(const std::string& path, bool overwrite) {
  auto fail = [&](const std::string& why) {
    throw ConfigError(fmt::format("data pack: '{}' {}", path, why));
  };
  std::error_code error;
  const fs::path target(path), folder = target.has_parent_path() ? target.parent_path() : ".";
  if (target.filename().empty()) fail("is not the name of a file");
  if (!fs::exists(folder, error))
    fail(fmt::format("cannot be written: folder '{}' does not exist", folder.string()));
  if (!fs::is_directory(folder, error))
    fail(fmt::format("cannot be written: '{}' is not a folder", folder.string()));
  for (const std::string& name : {path, path + ".partial"}) {
    const fs::file_type type = fs::symlink_status(name, error).type();
    if (type == fs::file_type::not_found) continue;
    if (type == fs::file_type::none)
      throw ConfigError(fmt::format("data pack: '{}': {}", name, error.message()));
    if (type != fs::file_type::regular)
      throw ConfigError(
          fmt::format("data pack: '{}' is {}; use a regular file, or one that does not exist yet",
                      name, kind_of(type)));
    if (name == path && !overwrite)
      fail("exists already; use another file, or replace it with --overwrite");
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    fail(fmt::format("cannot be written: folder '{}': {}", folder.string(), std::strerror(errno)));
}

void write_packed(const DataSplit& data, const std::string& path, int workers,
                  const std::function<void(int64_t, int64_t)>& progress, Compress compress) {
  check_pack_target(path, true);
  const int64_t all = data.train->count() + data.test->count();
  Partial partial(path);
  write_arrays(
      data, joined(data.train->class_names()), workers, compress == Compress::kGzip,
      [&](int64_t done) {
        if (progress) progress(done, all);
      },
      partial.path());
  partial.finish();
}

DataSplit open_packed(const std::string& path, int64_t cache, int readers, const Hdf5Wanted& wanted,
                      bool test_only) {
  const auto open = [&] { return open_pack(path, cache, readers, wanted, test_only); };
  if (!survives_hdf5(open)) fail_pack(path, "it is damaged: libhdf5 cannot read it");
  return open();
}

}  // namespace tessera
