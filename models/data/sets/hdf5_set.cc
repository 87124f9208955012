#include "tessera/models/data/sets/hdf5_set.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/data/formats/hdf5_blocks.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr int64_t kMaxClasses = int64_t{1} << 24, kMaxSide = 1 << 16;
// Maximum bytes of all threads' decoding buffers, unless one buffer is larger.
constexpr int64_t kMaxWork = int64_t{64} << 20;
constexpr const char kSplit[] = "{split}";

[[noreturn]] void fail(const Hdf5DataInfo& info, const std::string& why) {
  throw DataError(fmt::format("{}: '{}': {}", info.file, info.path, why));
}

std::string extents_text(const Hdf5DataInfo& info) {
  return fmt::format("[{}]", fmt::join(info.shape, " x "));
}

// --- labels ---------------------------------------------------------------------------------

void check_label_shape(const Hdf5DataInfo& info, int64_t images) {
  int64_t all = 1;
  for (int64_t extent : info.shape) {
    if (extent != 1 && all != 1)
      fail(info, fmt::format("labels must be one number per image, but the shape is {}; for "
                             "one-hot labels, save the argmax",
                             extents_text(info)));
    all *= extent;
  }
  if (all != images) fail(info, fmt::format("there are {} labels, but {} images", all, images));
}

std::vector<int32_t> read_labels(const std::shared_ptr<const Hdf5Data>& data, int64_t images) {
  const Hdf5DataInfo& info = data->info();
  check_label_shape(info, images);
  const Hdf5Blocks blocks(data, "labels");
  std::vector<int64_t> strides(info.shape.size(), 1);
  for (size_t i = strides.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * info.shape[i + 1];
  std::vector<int32_t> labels(static_cast<size_t>(images));
  Hdf5Blocks::Work work = blocks.make_work();
  for (int64_t block = 0; block < blocks.count(); ++block) {
    const int64_t first = block * blocks.rows() * strides[0];
    blocks.read(block, strides, work,
                [&](const std::byte* from, int64_t to, int64_t count, int64_t step) {
                  for (int64_t i = 0; i < count; ++i, from += info.type.bytes) {
                    double label = 0;
                    read_numbers(from, info.type, 1, &label);
                    const int64_t place = first + to + i * step;
                    if (!(label >= 0 && label < kMaxClasses) || label != std::floor(label))
                      fail(info, fmt::format("label {} of image {} is not an integer from 0 to "
                                             "{}; number the classes from 0 on",
                                             label, place, kMaxClasses - 1));
                    labels[static_cast<size_t>(place)] = static_cast<int32_t>(label);
                  }
                });
  }
  return labels;
}

// --- images ---------------------------------------------------------------------------------

// The positions in our images [H x W x C] of the values of a data set.
struct PixelPlaces {
  ImageShape shape;
  std::vector<int64_t> strides;  // one for each dimension of the data set
};

PixelPlaces pixel_places(const Hdf5DataInfo& info, const std::string& layout) {
  const std::vector<int64_t>& shape = info.shape;
  if (shape.size() < 3)
    fail(info, fmt::format("images must have the dimensions [n x H x W] or [n x H x W x C], but "
                           "the shape is {}; write them in such a shape (numpy: reshape)",
                           extents_text(info)));
  std::string order = layout;
  if (shape.size() == 3) std::erase(order, 'c');
  int64_t sizes[3] = {1, 1, 1};  // H, W, C
  constexpr std::string_view kDims = "hwc";
  for (size_t i = 0; i < order.size(); ++i) sizes[kDims.find(order[i])] = shape[i + 1];
  const auto [height, width, channels] = sizes;
  if (channels != 1 && channels != 3) {
    const bool first = shape[1] == 1 || shape[1] == 3, last = shape[3] == 1 || shape[3] == 3;
    fail(info,
         fmt::format(
             "images must have 1 or 3 channels, but {} with data.layout: {} has {}{}",
             extents_text(info), layout, channels,
             first != last ? fmt::format("; set data.layout: {}", first ? "chw" : "hwc") : ""));
  }
  if (height > kMaxSide || width > kMaxSide)
    fail(info, fmt::format("images must have at most {} pixels per side, but the shape is {}",
                           kMaxSide, extents_text(info)));
  if (shape[0] > INT32_MAX) fail(info, fmt::format("{} images are too many", shape[0]));
  PixelPlaces places{
      {static_cast<int>(height), static_cast<int>(width), static_cast<int>(channels)},
      {height * width * channels}};
  const int64_t strides[3] = {width * channels, channels, 1};
  for (char dim : order) places.strides.push_back(strides[kDims.find(dim)]);
  return places;
}

PixelRange pixel_range(const Hdf5DataInfo& info, const std::vector<double>& range) {
  if (range.size() == 2) return {range[0], range[1]};
  return info.type.kind == Hdf5Number::Kind::kFloat ? PixelRange{0, 1} : PixelRange{0, 255};
}

// The images of a file, decoded when they are read. Thread-safe.
class Images {
 public:
  // file_bytes: memory of the open file. wanted: number of images that will be read; 0: all.
  Images(const std::shared_ptr<const Hdf5Data>& data, const Hdf5Source& source, int readers,
         size_t file_bytes, int64_t wanted)
      : file_bytes_(file_bytes),
        blocks_(data, "images"),
        places_(pixel_places(data->info(), source.layout)),
        range_(pixel_range(data->info(), source.range)),
        block_bytes_(check_block(source.cache)),
        needed_(wanted > 0 ? std::min(blocks_.count(), wanted) : blocks_.count()),
        slots_(std::min(needed_, source.cache / block_bytes_)),
        cache_(blocks_.count(), static_cast<size_t>(block_bytes_), slots_,
               [this](int64_t block, uint8_t* to) { decode(block, to); }) {
    const auto each = static_cast<int64_t>(blocks_.work_bytes());
    const int64_t works = std::clamp<int64_t>(kMaxWork / each, 1, readers);
    works_.reserve(static_cast<size_t>(works));
    for (int64_t i = 0; i < works; ++i) idle_.push_back(&works_.emplace_back(blocks_.make_work()));
  }

  int64_t count() const { return blocks_.info().shape[0]; }
  const ImageShape& shape() const { return places_.shape; }

  void read(int64_t index, uint8_t* image) const {
    const auto bytes = static_cast<size_t>(shape().bytes());
    cache_.read(index / blocks_.rows(), static_cast<size_t>(index % blocks_.rows()) * bytes, bytes,
                image);
  }

  std::vector<MemoryItem> host_buffers(const std::string& name) const {
    const auto bytes = static_cast<size_t>(block_bytes_);
    return {{name + " images", BlockCache::host_bytes(blocks_.count(), bytes, slots_)},
            {name + " decoders", works_.size() * blocks_.work_bytes()},
            {name + " libhdf5", file_bytes_}};
  }

  std::vector<std::string> notes() const {
    if (slots_ == needed_) return {};
    const std::vector<int64_t>& chunk = blocks_.info().chunk;
    const int64_t all = blocks_.count() * block_bytes_, kept = slots_ * block_bytes_;
    const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
    return {fmt::format(
        "the images have {:.1f} MiB, but data.cache keeps only {:.1f} MiB{}", mib(all), mib(kept),
        chunk.empty() || blocks_.rows() == 1
            ? std::string()
            : fmt::format(": reading any other image decodes the {} images that share its chunks; "
                          "raise data.cache, or train from a pack",
                          blocks_.rows()))};
  }

 private:
  // Returns the bytes of a block of images.
  int64_t check_block(int64_t cache) const {
    const int64_t bytes = blocks_.rows() * shape().bytes();
    if (bytes > cache)
      fail(blocks_.info(),
           fmt::format("{} images share chunks and need {} bytes decoded, but data.cache is {}; "
                       "set data.cache to {}B or more, or write smaller chunks, such as one image "
                       "each (h5repack -l CHUNK=)",
                       blocks_.rows(), bytes, cache, bytes));
    return bytes;
  }

  void decode(int64_t block, uint8_t* to) {
    const auto give_back = [this](Hdf5Blocks::Work* work) {
      const std::lock_guard lock(mutex_);
      idle_.push_back(work);
      returned_.notify_one();
    };
    const std::unique_ptr<Hdf5Blocks::Work, decltype(give_back)> work(take_work(), give_back);
    blocks_.read(block, places_.strides, *work,
                 [&](const std::byte* from, int64_t place, int64_t count, int64_t step) {
                   convert(block, from, place, count, step, to);
                 });
  }

  void convert(int64_t block, const std::byte* from, int64_t place, int64_t count, int64_t step,
               uint8_t* to) const {
    const Hdf5Number& type = blocks_.info().type;
    const size_t done = to_pixels(from, type, range_, static_cast<size_t>(count), to + place, step);
    if (done == static_cast<size_t>(count)) return;
    double value = 0;
    read_numbers(from + done * static_cast<size_t>(type.bytes), type, 1, &value);
    const int64_t image =
        block * blocks_.rows() + (place + static_cast<int64_t>(done) * step) / shape().bytes();
    fail(blocks_.info(), fmt::format("image {} has the value {}, outside [{}, {}]; set data.range: "
                                     "[low, high] to the {} values of black and white",
                                     image, value, range_.low, range_.high, type.name()));
  }

  Hdf5Blocks::Work* take_work() {
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [&] { return !idle_.empty(); });
    Hdf5Blocks::Work* work = idle_.back();
    idle_.pop_back();
    return work;
  }

  const size_t file_bytes_;
  const Hdf5Blocks blocks_;
  const PixelPlaces places_;
  const PixelRange range_;
  const int64_t block_bytes_;
  const int64_t needed_;  // blocks; each image is in one
  const int64_t slots_;
  mutable BlockCache cache_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<Hdf5Blocks::Work> works_;
  std::vector<Hdf5Blocks::Work*> idle_;
};

// --- data sets ------------------------------------------------------------------------------

class Hdf5Set : public Dataset {
 public:
  // chosen: indices of the images; empty: all. owns: host_buffers() includes their memory.
  Hdf5Set(DatasetInfo info, std::shared_ptr<const Images> images, std::vector<int32_t> labels,
          std::vector<int32_t> chosen = {}, bool owns = true)
      : Dataset(std::move(info)),
        images_(std::move(images)),
        labels_(std::move(labels)),
        chosen_(std::move(chosen)),
        owns_(owns) {}

  std::vector<MemoryItem> host_buffers() const override {
    std::vector<MemoryItem> buffers;
    if (owns_) buffers = images_->host_buffers(name());
    buffers.push_back({name() + " labels", labels_.capacity() * sizeof(int32_t)});
    if (!chosen_.empty())
      buffers.push_back({name() + " indices", chosen_.capacity() * sizeof(int32_t)});
    return buffers;
  }
  std::vector<std::string> notes() const override {
    return owns_ ? images_->notes() : std::vector<std::string>();
  }

 private:
  void do_read(int64_t index, uint8_t* image) const override {
    images_->read(chosen_.empty() ? index : chosen_[static_cast<size_t>(index)], image);
  }
  int64_t do_label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }

  const std::shared_ptr<const Images> images_;
  const std::vector<int32_t> labels_, chosen_;
  const bool owns_;
};

void check_labels(const Hdf5DataInfo& info, const std::vector<int32_t>& labels, int classes) {
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] >= classes)
      fail(info,
           fmt::format("label {} of image {} is not in [0, {}); number the classes from 0 on, "
                       "and name them all",
                       labels[i], i, classes));
}

// Returns, for each image, whether it goes to the test set: the last images of each class do.
std::vector<bool> cut_off(const Hdf5DataInfo& info, const std::vector<int32_t>& labels, int classes,
                          double part) {
  std::vector<int64_t> left(static_cast<size_t>(classes));
  for (int32_t label : labels) ++left[static_cast<size_t>(label)];
  for (int64_t& count : left) {
    const auto wanted = static_cast<int64_t>(std::llround(static_cast<double>(count) * part));
    count = std::min(wanted, std::max<int64_t>(count - 1, 0));
  }
  std::vector<bool> cut(labels.size());
  bool any = false;
  for (size_t i = labels.size(); i-- > 0;) {
    int64_t& more = left[static_cast<size_t>(labels[i])];
    if (more == 0) continue;
    --more;
    cut[i] = any = true;
  }
  if (!any)
    fail(info, fmt::format("data.test_fraction: {} of the {} images selects no image of any class; "
                           "raise data.test_fraction",
                           part, labels.size()));
  return cut;
}

DataSplit cut_in_two(DatasetInfo info, const Hdf5DataInfo& data,
                     std::shared_ptr<const Images> images, const std::vector<int32_t>& labels,
                     double part) {
  const std::vector<bool> cut = cut_off(data, labels, info.classes, part);
  const auto half = [&](bool test) {
    const auto count = static_cast<size_t>(std::count(cut.begin(), cut.end(), test));
    std::vector<int32_t> chosen, own;
    chosen.reserve(count), own.reserve(count);
    for (size_t i = 0; i < cut.size(); ++i)
      if (cut[i] == test) chosen.push_back(static_cast<int32_t>(i)), own.push_back(labels[i]);
    info.name = test ? "hdf5 test" : "hdf5 train";
    info.count = static_cast<int64_t>(count);
    return std::make_shared<Hdf5Set>(info, images, std::move(own), std::move(chosen), !test);
  };
  return {half(false), half(true)};
}

std::string of_split(std::string path, const std::string& split) {
  for (size_t at = 0; (at = path.find(kSplit, at)) != std::string::npos; at += split.size())
    path.replace(at, sizeof kSplit - 1, split);
  return path;
}

bool has_split(const std::string& path) { return path.find(kSplit) != std::string::npos; }

std::vector<std::string> read_class_names(const Hdf5File& file, const Hdf5Source& source) {
  if (!source.class_names.empty()) return file.texts(of_split(source.class_names, "train"));
  for (std::string place : {of_split(source.labels, "train") + "@class_names",
                            of_split(source.images, "train") + "@class_names",
                            std::string("/@class_names"), std::string("/class_names")})
    if (file.has(place)) return file.texts(place);
  return {};
}

}  // namespace

std::optional<Hdf5SourceProblem> find_problem(const Hdf5Source& source) {
  const auto problem = [](const char* key, const std::string& text) {
    return Hdf5SourceProblem{key, std::string(key) + ": " + text};
  };
  if (source.labels.empty())
    return problem(
        "data.labels",
        "hdf5 needs the path of the labels in addition to data.images, such as /{split}/labels");
  if (has_split(source.images) != has_split(source.labels))
    return problem("data.labels",
                   fmt::format("'{}' and data.images '{}': both or neither must contain {{split}}",
                               source.labels, source.images));
  const std::vector<double>& range = source.range;
  const double span = range.size() == 2 ? range[1] - range[0] : 0;
  if (!range.empty() && !(span > 0 && std::isfinite(span) && std::isfinite(255 / span)))
    return problem(
        "data.range",
        "must be two numbers, [low, high]: the values of black and of white, such as [0, 65535]");
  return {};
}

DataSplit make_hdf5_set(const Hdf5Arrays& train, const std::optional<Hdf5Arrays>& test,
                        const Hdf5Source& source, int readers,
                        const std::vector<std::string>& class_names,
                        const Normalization& normalization, const Hdf5Wanted& wanted) {
  const Hdf5DataInfo &images = train.images->info(), &labels = train.labels->info();
  const bool parts = wanted.train > 0 && wanted.test > 0;  // both parts of one file are limited
  auto pictures = std::make_shared<Images>(train.images, source, readers, Hdf5File::kHostBytes,
                                           test    ? wanted.train
                                           : parts ? wanted.train + wanted.test
                                                   : 0);
  std::vector<int32_t> classes = read_labels(train.labels, pictures->count());
  DatasetInfo info{"hdf5 train", pictures->shape(), pictures->count(), 0,
                   class_names,  normalization};
  info.classes = class_names.empty() ? *std::ranges::max_element(classes) + 1
                                     : static_cast<int>(class_names.size());
  check_labels(labels, classes, info.classes);
  if (!test) return cut_in_two(info, images, pictures, classes, source.test_fraction);
  auto others = std::make_shared<Images>(test->images, source, readers, 0, wanted.test);
  if (others->shape() != pictures->shape())
    fail(test->images->info(),
         fmt::format("its shape is {}, but that of the training images is {}; all images must have "
                     "the same size",
                     extents_text(test->images->info()), extents_text(images)));
  std::vector<int32_t> other_classes = read_labels(test->labels, others->count());
  check_labels(test->labels->info(), other_classes, info.classes);
  DatasetInfo other = info;
  other.name = "hdf5 test";
  other.count = others->count();
  return {std::make_shared<Hdf5Set>(info, pictures, std::move(classes)),
          std::make_shared<Hdf5Set>(other, others, std::move(other_classes))};
}

std::vector<float> floats_of(const Hdf5File& file, const std::string& place) {
  if (place.empty() || !file.has(place)) return {};
  const std::vector<double> values = file.numbers(place);
  return {values.begin(), values.end()};
}

DataSplit open_hdf5_set(const std::string& path, const Hdf5Source& source, int readers,
                        const std::string& mean, const std::string& std,
                        const Hdf5Wanted& wanted) try {
  if (const auto problem = find_problem(source)) throw ConfigError(problem->text);
  const Hdf5File file(path);
  const auto arrays = [&](const std::string& split) {
    return Hdf5Arrays{file.open(of_split(source.images, split)),
                      file.open(of_split(source.labels, split))};
  };
  std::optional<Hdf5Arrays> test;
  const Hdf5Arrays train = arrays("train");
  if (has_split(source.images)) {
    const bool is_val =
        !file.has(of_split(source.images, "test")) && file.has(of_split(source.images, "val"));
    test = arrays(is_val ? "val" : "test");
  }
  DataSplit split = make_hdf5_set(train, test, source, readers, read_class_names(file, source),
                                  {floats_of(file, mean), floats_of(file, std)}, wanted);
  std::vector<uint8_t> first(static_cast<size_t>(split.train->shape().bytes()));
  for (const Dataset* data : {split.train.get(), split.test.get()}) data->read(0, first.data());
  return split;
} catch (const DataError&) {
  throw;
} catch (const ConfigError&) {
  throw;
} catch (const Error& error) {  // an invalid data set
  throw DataError(fmt::format("{}: {}", path, error.what()));
}

}  // namespace tessera
