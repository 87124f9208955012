// Dataset: labelled images as bytes, and the functions that open data sets. No tensors here.
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

#include "tessera/runtime/raw_memory.h"

namespace tessera {

struct ImageShape {
  int height = 0, width = 0, channels = 0;
  int64_t bytes() const { return int64_t{height} * width * channels; }
  bool operator==(const ImageShape&) const = default;
};

// A part of an image, in pixels.
struct Box {
  int y = 0, x = 0, height = 0, width = 0;
  bool operator==(const Box&) const = default;
};

// x -> (x / 255 - mean) / std, one entry per channel, in units of x / 255.
struct Normalization {
  std::vector<float> mean, std;
};

// The properties of a data set that are known before any image is read.
struct DatasetInfo {
  std::string name;  // "cifar10 train"
  ImageShape shape;
  int64_t count = 0;
  int classes = 0;
  std::vector<std::string> class_names;  // empty, or one per class
  Normalization normalization;           // one entry per channel; empty: unknown
  int64_t skipped = 0;                   // files and folders that are no images, see notes()
};

// Images of one shape with their labels, read by index. Thread-safe.
class Dataset {
 public:
  // Throws Error if the info contradicts itself.
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
  // Returns mean 0 and std 1 if none is known; measured_normalization() (moments.h) computes one.
  const Normalization& normalization() const { return normalization_; }
  bool has_normalization() const { return !info_.normalization.mean.empty(); }
  const DatasetInfo& info() const { return info_; }

  // Writes shape().bytes() bytes. Throws Error unless index is in [0, count()). Allocates only the
  // working memory of picture decoders, which is freed again (host_buffers() counts its maximum).
  void read(int64_t index, uint8_t* image) const;
  int64_t label(int64_t index) const;
  // Returns the file of the image relative to the root of an image folder; "" for other sets.
  std::string file(int64_t index) const;

  // Returns true for image folders: their pictures have sizes of their own, which read() scales to
  // shape(). A random crop is better cut from the picture itself, by read_part().
  virtual bool has_own_sizes() const { return false; }
  // Returns the shape with the height and width of the picture itself.
  virtual ImageShape own_shape(int64_t index) const;
  // Writes `part` of the picture, scaled to [to.height x to.width x channels()].
  void read_part(int64_t index, const Box& part, const ImageShape& to, uint8_t* image) const;

  // "cifar10 train: 50000 images [32x32x3], 10 classes, 146.7 MiB in memory"
  std::string describe() const;
  // Returns the memory that the data set holds, except for small allocations.
  virtual std::vector<MemoryItem> host_buffers() const { return {}; }
  // Returns remarks on opening, for users: "3 files are no pictures and were skipped: ..."
  virtual std::vector<std::string> notes() const { return {}; }

 private:
  virtual void do_read(int64_t index, uint8_t* image) const = 0;
  virtual int64_t do_label(int64_t index) const = 0;
  virtual std::string do_file(int64_t /*index*/) const { return ""; }
  virtual void do_read_part(int64_t index, const Box& part, const ImageShape& to,
                            uint8_t* image) const;
  void check_index(int64_t index) const;

  DatasetInfo info_;
  Normalization normalization_;
};

// Returns the label of each image.
std::vector<int32_t> labels_of(const Dataset& data);
// Returns the number of images of each class.
std::vector<int64_t> images_of_classes(const Dataset& data);

// A data set in memory. The readers of file formats return one; users can make one of their bytes.
class MemoryDataset : public Dataset {
 public:
  // Takes images [count x H x W x C] and labels [count]. Throws Error unless the sizes match and
  // each label is in [0, classes).
  MemoryDataset(DatasetInfo info, std::vector<uint8_t> images, std::vector<int32_t> labels,
                std::vector<std::string> notes = {});
  std::vector<MemoryItem> host_buffers() const override;
  std::vector<std::string> notes() const override { return notes_; }

 private:
  void do_read(int64_t index, uint8_t* image) const override;
  int64_t do_label(int64_t index) const override { return labels_[static_cast<size_t>(index)]; }

  std::vector<uint8_t> images_;
  std::vector<int32_t> labels_;
  std::vector<std::string> notes_;
};

enum class Damaged {
  kError,  // a DataError that names the files
  kSkip,   // left out and counted; opening decodes every picture once
};

// The channels of the images of "image_folder".
enum class Channels {
  kGray,    // one, the brightness
  kColour,  // red, green, blue; gray pictures have three equal ones
  kAuto,    // one if all pictures are stored in gray, else three
};

// The arrays that "hdf5" reads from a file that is not a pack (sets/packed.h). In paths, {split}
// becomes train and test; docs/data.md describes the arrays.
struct Hdf5Source {
  std::string images = {}, labels = {};  // "/{split}/images"; no images: the file is a pack
  std::string class_names = {};          // path of a data set, or "PATH@ATTRIBUTE"
  std::string layout = "hwc";            // order of an image's dimensions: hwc, chw or cwh
  std::vector<double> range = {};        // low, high: the values of black and white
  double test_fraction = 0.1;            // without {split}: the fraction that becomes the test set
  int64_t cache = int64_t{256} << 20;    // bytes of decoded images kept, per set
};

// The images that a training is evaluated on while it runs, so that the test set is kept for its
// end: a percentage or a number of the training images, or a folder. At most one is given.
struct ValidationSource {
  double percent = 0;       // percentage of the training images, above 0 and below 100
  int64_t count = 0;        // number of training images
  std::string folder = {};  // "image_folder": classes as in train; from the root, or absolute
  bool any() const { return percent > 0 || count > 0 || !folder.empty(); }
  // Returns the number of images to hold out of `training` images, by percent or count.
  int64_t images(int64_t training) const;
  std::string text() const;  // "10%", "5000", "val", "none"
  bool operator==(const ValidationSource&) const = default;
};

// The data to open.
struct DataSource {
  std::string name = "synthetic";  // one of data_names()
  std::string root = {};           // folder of the files, or the file of "hdf5"
  uint64_t seed = 1;  // seed of "synthetic" images and of the choice of validation images
  // Numbers of images (subset.h); 0: all ("synthetic": 10000 and 2000). If "image_folder" or "hdf5"
  // is sorted by class, each class gives its share; otherwise the first images are used.
  int64_t train_count = 0;
  int64_t test_count = 0;
  // Height and width in pixels. "synthetic": 16 to 512; 0: 32. "image_folder": 1 to 4096, required.
  int image_size = 0;
  int resize = 0;  // "image_folder": of the short side before image_size is cropped; 0: image_size
  bool coarse = false;  // "cifar100": the 20 coarse labels instead of the 100 fine ones
  Damaged damaged = Damaged::kError;  // "image_folder": pictures that do not decode
  // "image_folder": decodes every picture when it is opened, so that the error for damaged pictures
  // lists all of them.
  bool decode_all = false;
  Channels channels = Channels::kColour;  // "image_folder"
  bool follow_links = false;              // "image_folder": links that lead out of its root
  int readers = 2;  // "image_folder", "hdf5": threads that can decode at once, 1 to 256
  Hdf5Source hdf5 = {};
  // "image_folder" without test images: the fraction that becomes the test set. With test_only and
  // 0, all images of root/<class> are test images.
  double test_fraction = 0.1;
  ValidationSource validation = {};  // taken from the training images that train_count leaves
  // Opens the test set only, and training images only if it depends on them. DataSplit::train is
  // then nullptr, except for "hdf5" files read as hdf5_set.h says.
  bool test_only = false;
};

struct DataSplit {
  std::shared_ptr<const Dataset> train, test;           // train: nullptr with DataSource::test_only
  std::shared_ptr<const Dataset> validation = nullptr;  // set if DataSource::validation is
  bool cut = false;  // test or validation images were drawn from the others
};

// Returns hdf5, image_folder, synthetic and the published sets (sets/published.h), sorted.
const std::vector<std::string>& data_names();

// Opens the data. Throws ConfigError for an unknown name (lists the known ones) or a count that is
// too large, DataError for a missing folder or file (names the folder, the files looked for, the
// remedy) and for damaged ones (names file and byte offset).
DataSplit open_data(const DataSource& source);

// The shape, the counts and the memory of data.
struct DataNeed {
  ImageShape shape;                         // shape of an image; zeros: unknown
  int64_t train_count = 0, test_count = 0;  // 0: unknown before opening
  int classes = 0;                          // 0: unknown before opening
  int64_t bytes = 0;                        // in memory
  bool complete = true;                     // false: open data may need more memory
  int64_t validation_count = 0;             // 0: none, or unknown before opening
  bool operator==(const DataNeed&) const = default;
};
DataNeed data_need(const DataSplit& data);
// Returns what is cheap to know before opening. Published data sets count as complete. The files of
// an image folder are counted but not opened: the memory of decoders is missing, and with
// Damaged::kSkip the counts too. "hdf5" files are opened, and folders with Channels::kAuto: throws
// what open_data() throws for these.
DataNeed data_need(const DataSource& source);
// Returns the number of classes. Opens "hdf5" files, and lists folders. Throws what open_data()
// throws for these.
int class_count(const DataSource& source);

}  // namespace tessera
