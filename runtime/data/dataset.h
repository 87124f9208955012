// Labelled images as bytes, and where they come from. No tensors here.
//
// An image is uint8 [H x W x C], channels last, C = 1 or 3 (red, green, blue); a label is an
// integer in [0, classes). All images of a data set have one shape.
//
//   DataSplit data = open_data({.name = "cifar10", .root = "data/cifar10"});
//   data.train->read(7, pixels);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tessera {

struct ImageShape {
  int height = 0, width = 0, channels = 0;
  int64_t bytes() const { return int64_t{height} * width * channels; }
  bool operator==(const ImageShape&) const = default;
};

// x -> (x / 255 - mean) / std, one entry per channel, in units of x / 255.
struct Normalization {
  std::vector<float> mean, std;
};

// Host memory held for data: what it is for, and the bytes asked of the system in one request.
struct HostBuffer {
  std::string name;
  size_t bytes = 0;
};

// What is known of a data set before any image is read.
struct DatasetInfo {
  std::string name;  // "cifar10 train"
  ImageShape shape;
  int64_t count = 0;
  int classes = 0;
  std::vector<std::string> class_names;  // empty, or one per class
  Normalization normalization;           // one entry per channel
};

// Thread-safe: any number of threads may read at once.
class Dataset {
 public:
  // Throws Error when the info contradicts itself.
  explicit Dataset(DatasetInfo info);
  virtual ~Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  const std::string& name() const { return info_.name; }
  int64_t count() const { return info_.count; }
  const ImageShape& shape() const { return info_.shape; }
  int height() const { return info_.shape.height; }
  int width() const { return info_.shape.width; }
  int channels() const { return info_.shape.channels; }
  int classes() const { return info_.classes; }
  const std::vector<std::string>& class_names() const { return info_.class_names; }
  const Normalization& normalization() const { return info_.normalization; }
  const DatasetInfo& info() const { return info_; }

  // Writes shape().bytes() bytes. index in [0, count()), or Error. Allocates nothing.
  void read(int64_t index, uint8_t* image) const;
  int64_t label(int64_t index) const;

  // "cifar10 train: 50000 images [32x32x3], 10 classes, 146.7 MiB in memory"
  std::string describe() const;
  // The memory the data set holds, every request of some size.
  virtual std::vector<HostBuffer> host_buffers() const { return {}; }

 private:
  virtual void do_read(int64_t index, uint8_t* image) const = 0;
  virtual int64_t do_label(int64_t index) const = 0;
  void check_index(int64_t index) const;

  DatasetInfo info_;
};

// All images and labels in memory; what the file formats return, and a way to bring one's own
// bytes.
class MemoryDataset : public Dataset {
 public:
  // images [count x H x W x C], labels [count], each in [0, classes); throws Error otherwise.
  MemoryDataset(DatasetInfo info, std::vector<uint8_t> images, std::vector<int32_t> labels);
  std::vector<HostBuffer> host_buffers() const override;

 private:
  void do_read(int64_t index, uint8_t* image) const override;
  int64_t do_label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }

  std::vector<uint8_t> images_;
  std::vector<int32_t> labels_;
};

// Which data to open.
struct DataSource {
  std::string name = "synthetic";  // one of data_names()
  std::string root = {};           // folder of the files; not used by "synthetic"
  uint64_t seed = 1;               // "synthetic": which images are generated
  int64_t train_count = 0;         // the first so many; 0: all ("synthetic": 10000)
  int64_t test_count = 0;          // the first so many; 0: all ("synthetic": 2000)
  int image_size = 0;              // "synthetic": height and width in pixels, 16 to 512; 0: 32
};

struct DataSplit {
  std::shared_ptr<const Dataset> train, test;
};

// cifar10, cifar100 (the fine labels), fashion_mnist, mnist, synthetic
const std::vector<std::string>& data_names();

// Throws ConfigError for a name or a count that cannot be had (the name's text lists the known
// ones), DataError for a missing folder or file (names the folder, the files looked for, the
// remedy) and for damaged ones (names file and byte offset).
DataSplit open_data(const DataSource& source);

}  // namespace tessera
