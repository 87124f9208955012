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

#include "tessera/models/data/formats/hdf5_read.h"
#include "tessera/models/data/formats/hdf5_writer.h"
#include "tessera/models/data/formats/sealed_file.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/data/moments.h"
#include "tessera/models/data/sets/image_files.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

static_assert(std::endian::native == std::endian::little);
constexpr char kFormat[] = "tessera data";
constexpr int kVersion = 1;

// Writes a file from front to back; gone again unless finish() is reached.
class Writer {
 public:
  explicit Writer(const std::string& path) : path_(path), partial_(path + ".partial") {
    file_ =
        files_.open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file_ < 0) fail("opened");
  }
  ~Writer() {
    if (file_ < 0) return;
    files_.close(file_);
    files_.unlink(partial_.c_str());
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void write(const void* bytes, size_t count) {
    at_ += count;
    for (auto* from = static_cast<const char*>(bytes); count > 0;) {
      ssize_t done = files_.write(file_, from, count);
      if (done < 0 && errno == EINTR) continue;
      if (done <= 0) fail("written");
      from += done;
      count -= static_cast<size_t>(done);
    }
  }
  void zeros_until(size_t place) {
    constexpr char kZeros[64] = {};
    while (at_ < place) write(kZeros, std::min(sizeof kZeros, place - at_));
  }
  const std::string& partial() const { return partial_; }
  void finish() {
    check_pack_target(path_, true);  // what has come there since is not replaced either
    if (files_.fsync(file_) != 0) fail("synchronised");
    if (files_.rename(partial_.c_str(), path_.c_str()) != 0) fail("renamed");
    files_.close(file_);
    file_ = -1;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw OutputError(fmt::format("'{}' cannot be {}: {}", partial_, what, std::strerror(errno)));
  }
  FileSystem& files_ = file_system();
  const std::string path_, partial_;
  int file_ = -1;
  size_t at_ = 0;
};

// One line for each name, whatever is in it.
std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += printable(name) + '\n';
  if (!text.empty()) text.pop_back();
  return text;
}

// Gives use() all images, `batch` at a time but for the last ones, and progress what is done.
void read_images(const Dataset& data, int64_t batch, int workers,
                 const std::function<void(int64_t)>& progress,
                 const std::function<void(const Batch&)>& use) {
  LoaderOptions options;
  options.batch = batch;
  options.workers = workers;
  options.read_ahead = 2;
  Loader loader(std::shared_ptr<const Dataset>(std::shared_ptr<const Dataset>(), &data), options);
  for (int64_t i = 0, done = 0; i < loader.batches(); ++i) {
    const Batch& images = loader.next();
    use(images);
    done += images.count;
    if (progress) progress(done);
  }
}

// The normalization that a pack gets: the data set's own where it has one, else what its training
// images come to, as measured_normalization() measures, while they pass.
class PassingMoments {
 public:
  explicit PassingMoments(const Dataset& train)
      : train_(train), moments_(train.channels()), normalization_(train.normalization()) {}
  void see(const Dataset& split, const Batch& batch) {
    if (&split != &train_ || train_.has_normalization()) return;
    const int64_t bytes = split.shape().bytes(), stride = measuring_stride(split.count());
    for (int64_t i = 0; i < batch.count; ++i)
      if (batch.samples[i] % stride == 0) moments_.add(batch.images + i * bytes, bytes);
    if (batch.last) normalization_ = moments_.normalization();
  }
  // Complete when all training images were seen.
  const Normalization& result() const { return normalization_; }

 private:
  const Dataset& train_;
  Moments moments_;
  Normalization normalization_;
};

// Some 8 MiB.
int64_t images_at_once(const Dataset& data) {
  return std::clamp<int64_t>((int64_t{8} << 20) / data.shape().bytes(), 1, 256);
}

std::vector<int32_t> labels_of(const Dataset& data) {
  std::vector<int32_t> labels(static_cast<size_t>(data.count()));
  for (int64_t i = 0; i < data.count(); ++i)
    labels[static_cast<size_t>(i)] = static_cast<int32_t>(data.label(i));
  return labels;
}

// An open pack: where its arrays are.
class PackedFile {
 public:
  explicit PackedFile(const std::string& path) : path_(path), source_(path) {
    contents_ = read_hdf5(source_);
    for (const Hdf5Attribute& attribute : contents_.attributes) {
      if (attribute.name == "format" && attribute.text != kFormat)
        fail(fmt::format("it is '{}', not '{}'", printable(attribute.text), kFormat));
      if (attribute.name == "version" && attribute.number > kVersion)
        fail(fmt::format("it has version {}, this program reads up to {}", attribute.number,
                         kVersion));
    }
  }

  const Hdf5Array* find(const std::string& name) const {
    for (const Hdf5Array& array : contents_.arrays)
      if (array.name == name) return &array;
    return nullptr;
  }
  const Hdf5Array& need(const std::string& name, const char* dtype, size_t dims) const {
    const Hdf5Array* array = find(name);
    if (array == nullptr) fail(fmt::format("'{}' is missing", name));
    if (array->dtype != dtype || array->shape.size() != dims)
      fail(fmt::format("'{}' must be {} of {} dimensions, it is {} of {}", name, dtype, dims,
                       array->dtype, array->shape.size()));
    return *array;
  }
  template <class T>
  std::vector<T> values(const Hdf5Array& array) const {
    std::vector<T> values(array.bytes / sizeof(T));
    read(array.offset, values.data(), values.size() * sizeof(T));
    return values;
  }
  void read(uint64_t offset, void* to, size_t count) const {
    try {
      source_.read(offset, to, count);
    } catch (const Error& error) {
      fail(error.what());
    }
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw DataError(fmt::format("{}: {}", path_, why));
  }

 private:
  const std::string path_;
  FileSource source_;
  Hdf5Contents contents_;
};

class Packed : public Dataset {
 public:
  Packed(DatasetInfo info, std::shared_ptr<const PackedFile> file, uint64_t images,
         std::vector<int32_t> labels)
      : Dataset(std::move(info)),
        file_(std::move(file)),
        images_(images),
        labels_(std::move(labels)) {}
  std::vector<HostBuffer> host_buffers() const override {
    return {{name() + " labels", labels_.capacity() * sizeof(int32_t)}};
  }

 private:
  void do_read(int64_t index, uint8_t* image) const override {
    auto bytes = static_cast<size_t>(shape().bytes());
    file_->read(images_ + static_cast<uint64_t>(index) * bytes, image, bytes);
  }
  int64_t do_label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }

  std::shared_ptr<const PackedFile> file_;
  uint64_t images_;  // where the first begins
  std::vector<int32_t> labels_;
};

std::shared_ptr<const Dataset> open_split(const std::shared_ptr<const PackedFile>& file,
                                          const std::string& split, DatasetInfo info) {
  const Hdf5Array& images = file->need(split + "/images", "uint8", 4);
  const Hdf5Array& labels = file->need(split + "/labels", "int32", 1);
  const auto& shape = images.shape;
  for (size_t i = 0; i < 4; ++i)
    if (shape[i] < 1 || (i > 0 && shape[i] > INT_MAX))
      file->fail(fmt::format("'{}' has a side of {}", images.name, shape[i]));
  if (labels.shape[0] != shape[0])
    file->fail(fmt::format("{} {} images but {} labels", shape[0], split, labels.shape[0]));
  if (shape[3] != 1 && shape[3] != 3)
    file->fail(fmt::format(
        "'{}' is [{}]: images have 1 or 3 channels, which come last{}", images.name,
        fmt::join(shape, " x "),
        shape[1] == 1 || shape[1] == 3
            ? fmt::format(
                  " in a pack; where they come first, say so: data.images=/{{split}}/images "
                  "data.labels=/{{split}}/labels data.layout=chw")
            : ""));
  info.name = "hdf5 " + split;
  info.shape = {static_cast<int>(shape[1]), static_cast<int>(shape[2]), static_cast<int>(shape[3])};
  info.count = shape[0];
  std::vector<int32_t> values = file->values<int32_t>(labels);
  auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (*low < 0 || *high >= info.classes)
    file->fail(fmt::format("label {} of image {} is not in [0, {})", *low < 0 ? *low : *high,
                           (*low < 0 ? low : high) - values.begin(), info.classes));
  return std::make_shared<Packed>(std::move(info), file, images.offset, std::move(values));
}

// Without names, as many classes as the training labels speak of.
void read_classes(const PackedFile& file, DatasetInfo& info) {
  constexpr int kMaxClasses = 1 << 24;
  if (const Hdf5Array* names = file.find("class_names")) {
    std::vector<char> text = file.values<char>(*names);
    std::string name;
    text.push_back('\n');
    for (char c : text) {
      if (c == '\n')
        info.class_names.push_back(printable(std::exchange(name, "")));
      else if (c != '\0')
        name += c;
    }
    info.classes = static_cast<int>(info.class_names.size());
    return;
  }
  for (int32_t label : file.values<int32_t>(file.need("train/labels", "int32", 1)))
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

// Pixels are divided by the deviation: it and its reciprocal must be numbers.
void check_normalization(const std::string& path, const Normalization& normalization) {
  const auto check = [&](const char* name, const std::vector<float>& values, auto fits,
                         const char* must) {
    for (size_t c = 0; c < values.size(); ++c)
      if (!fits(values[c]))
        throw DataError(
            fmt::format("{}: '{}' of channel {} is {}, it must be {}; write it again, or leave "
                        "mean and std out",
                        path, name, c, values[c], must));
  };
  check(
      "mean", normalization.mean, [](float v) { return std::isfinite(v); }, "a finite number");
  check(
      "std", normalization.std, [](float v) { return v > 0 && std::isnormal(v); },
      "above 0 and a finite number, in float32 too");
}

}  // namespace

void check_pack_target(const std::string& path, bool overwrite) {
  auto fail = [&](const std::string& why) {
    throw ConfigError(fmt::format("data pack: '{}' {}", path, why));
  };
  std::error_code error;
  const fs::path target(path), folder = target.has_parent_path() ? target.parent_path() : ".";
  if (target.filename().empty()) fail("names no file");
  if (!fs::exists(folder, error))
    fail(fmt::format("cannot be made: there is no folder '{}'", folder.string()));
  if (!fs::is_directory(folder, error))
    fail(fmt::format("cannot be made: '{}' is no folder", folder.string()));
  for (const std::string& name : {path, path + ".partial"}) {
    const fs::file_type type = fs::symlink_status(name, error).type();
    if (type == fs::file_type::not_found) continue;
    if (type == fs::file_type::none)
      throw ConfigError(fmt::format("data pack: '{}': {}", name, error.message()));
    if (type != fs::file_type::regular)
      throw ConfigError(
          fmt::format("data pack: '{}' is {}; name an ordinary file, or one that is "
                      "not there yet",
                      name, kind_of(type)));
    if (name == path && !overwrite)
      fail("exists; name another file, or replace it with --overwrite");
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    fail(fmt::format("cannot be made: folder '{}': {}", folder.string(), std::strerror(errno)));
}

namespace {

// What a pack has, in the order of the file.
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

const std::vector<Hdf5Attribute> kAttributes = {{"format", kFormat, 0}, {"version", "", kVersion}};

using SplitProgress = std::function<void(int64_t)>;

// What stands behind the images and labels, by the number of the array; known when they are
// written.
using SmallArrays = std::function<const void*(size_t)>;

void write_plain(const DataSplit& data, const std::vector<ArraySpec>& arrays,
                 PassingMoments& moments, const SmallArrays& small, int workers,
                 const SplitProgress (&progress)[2], Writer& writer) {
  const Hdf5Layout layout(arrays, kAttributes);
  std::vector<std::byte> front(layout.front_bytes());
  layout.write(front);
  writer.write(front.data(), front.size());
  size_t at = 0;
  for (const Dataset* split : {data.train.get(), data.test.get()}) {
    writer.zeros_until(layout.offset(at));
    read_images(*split, images_at_once(*split), workers, progress[at / 2], [&](const Batch& batch) {
      moments.see(*split, batch);
      writer.write(batch.images, static_cast<size_t>(batch.count * split->shape().bytes()));
    });
    writer.zeros_until(layout.offset(at + 1));
    const std::vector<int32_t> labels = labels_of(*split);
    writer.write(labels.data(), labels.size() * sizeof(int32_t));
    at += 2;
  }
  for (; at < arrays.size(); ++at) {
    writer.zeros_until(layout.offset(at));
    writer.write(small(at), layout.array_bytes(at));
  }
  writer.zeros_until(layout.bytes());
}

// A chunk of images is small, because an image at random costs the decoding of all; 32 KiB before a
// byte are as far as gzip looks back.
void write_gzip(const DataSplit& data, const std::vector<ArraySpec>& arrays,
                PassingMoments& moments, const SmallArrays& small, int workers,
                const SplitProgress (&progress)[2], const std::string& path) {
  constexpr int64_t kChunk = int64_t{64} << 10;
  Hdf5Writer writer(path);
  for (const Hdf5Attribute& attribute : kAttributes) writer.attribute(attribute);
  size_t at = 0;
  for (const Dataset* split : {data.train.get(), data.test.get()}) {
    const int64_t rows = std::clamp<int64_t>(kChunk / split->shape().bytes(), 1, split->count());
    writer.begin_chunked(arrays[at], rows);
    const int64_t batch = std::max<int64_t>(1, images_at_once(*split) / rows) * rows;
    read_images(*split, batch, workers, progress[at / 2], [&](const Batch& images) {
      moments.see(*split, images);
      writer.append(images.images, images.count);
    });
    const std::vector<int32_t> labels = labels_of(*split);
    writer.begin_chunked(arrays[at + 1], std::min<int64_t>(split->count(), kChunk / 4));
    writer.append(labels.data(), split->count());
    at += 2;
  }
  for (; at < arrays.size(); ++at) writer.array(arrays[at], small(at));
  writer.close();
}

}  // namespace

void write_packed(const DataSplit& data, const std::string& path, int workers,
                  const std::function<void(int64_t, int64_t)>& progress, Compress compress) {
  check_pack_target(path, true);
  const std::string names = joined(data.train->class_names());
  const std::vector<ArraySpec> arrays = arrays_of(data, names);
  PassingMoments moments(*data.train);
  const SmallArrays small = [&](size_t array) -> const void* {
    if (arrays[array].name == "mean") return moments.result().mean.data();
    if (arrays[array].name == "std") return moments.result().std.data();
    return names.data();
  };
  const int64_t train = data.train->count(), all = train + data.test->count();
  const auto after = [&](int64_t before) -> SplitProgress {
    return [&progress, before, all](int64_t done) {
      if (progress) progress(before + done, all);
    };
  };
  const SplitProgress told[] = {after(0), after(train)};
  Writer writer(path);
  if (compress == Compress::kGzip)
    write_gzip(data, arrays, moments, small, workers, told, writer.partial());
  else
    write_plain(data, arrays, moments, small, workers, told, writer);
  writer.finish();
}

namespace {

// Whether the arrays are those that a pack of ours has; others are read through the library.
bool has_own_types(const PackedFile& file) {
  for (const std::string split : {"train", "test"}) {
    const Hdf5Array *images = file.find(split + "/images"), *labels = file.find(split + "/labels");
    if (images != nullptr && (images->dtype != "uint8" || images->shape.size() != 4)) return false;
    if (labels != nullptr && (labels->dtype != "int32" || labels->shape.size() != 1)) return false;
  }
  return true;
}

DataSplit open_through_library(const std::string& path, int64_t cache, int readers,
                               const Hdf5Wanted& wanted) {
  const Hdf5Source source{.images = "/{split}/images", .labels = "/{split}/labels", .cache = cache};
  DataSplit data = open_hdf5_set(path, source, readers, "/mean", "/std", wanted);
  if (data.train->has_normalization()) check_normalization(path, data.train->normalization());
  return data;
}

}  // namespace

DataSplit open_packed(const std::string& path, int64_t cache, int readers, const Hdf5Wanted& wanted,
                      bool test_only) try {
  auto file = std::make_shared<const PackedFile>(path);
  if (!has_own_types(*file)) return open_through_library(path, cache, readers, wanted);
  DatasetInfo info;
  read_classes(*file, info);
  auto floats = [&](const char* name) {
    return file->find(name) ? file->values<float>(file->need(name, "float32", 1))
                            : std::vector<float>();
  };
  info.normalization = {floats("mean"), floats("std")};
  check_normalization(path, info.normalization);
  auto test = open_split(file, "test", info);
  if (test_only) return {nullptr, test};
  auto train = open_split(file, "train", info);
  if (train->shape() != test->shape()) file->fail("train and test images differ in shape");
  return {train, test};
} catch (const DataError&) {
  throw;
} catch (const Hdf5StorageError&) {
  return open_through_library(path, cache, readers, wanted);
} catch (const Hdf5Error& error) {
  throw DataError(
      fmt::format("{}: {}; where this is a file of another program, say with data.images "
                  "and data.labels what to read in it",
                  path, error.what()));
} catch (const Error& error) {  // of a data set that cannot be
  throw DataError(fmt::format("{}: {}", path, error.what()));
}

}  // namespace tessera
