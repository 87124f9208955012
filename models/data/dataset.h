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

#include "tessera/runtime/memory_item.h"

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

// What is known of a data set before any image is read.
struct DatasetInfo {
  std::string name;  // "cifar10 train"
  ImageShape shape;
  int64_t count = 0;
  int classes = 0;
  std::vector<std::string> class_names;  // empty, or one per class
  Normalization normalization;           // one entry per channel; empty: nobody told
  int64_t skipped = 0;                   // files and folders beside the images, see notes()
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
  // Where nobody told, mean 0 and deviation 1; measured_normalization() (moments.h) tells then.
  const Normalization& normalization() const { return normalization_; }
  bool has_normalization() const { return !info_.normalization.mean.empty(); }
  const DatasetInfo& info() const { return info_; }

  // Writes shape().bytes() bytes. index in [0, count()), or Error. Allocates nothing; decoders of
  // pictures take their working memory and give it back (host_buffers() has it at its largest).
  void read(int64_t index, uint8_t* image) const;
  int64_t label(int64_t index) const;

  // Image folders: images lie in files at sizes of their own, which read() brings to shape().
  // A random crop is better cut from the picture itself.
  virtual bool has_own_sizes() const { return false; }
  // Height and width of the picture itself.
  virtual ImageShape own_shape(int64_t index) const;
  // Writes the part of the picture, scaled to [to.height x to.width x channels()].
  void read_part(int64_t index, const Box& part, const ImageShape& to, uint8_t* image) const;

  // "cifar10 train: 50000 images [32x32x3], 10 classes, 146.7 MiB in memory"
  std::string describe() const;
  // The memory the data set holds, every request of some size.
  virtual std::vector<MemoryItem> host_buffers() const { return {}; }
  // What a person should know of how it was opened: "3 files are no pictures and were skipped: ..."
  virtual std::vector<std::string> notes() const { return {}; }

 private:
  virtual void do_read(int64_t index, uint8_t* image) const = 0;
  virtual int64_t do_label(int64_t index) const = 0;
  virtual void do_read_part(int64_t index, const Box& part, const ImageShape& to,
                            uint8_t* image) const;
  void check_index(int64_t index) const;

  DatasetInfo info_;
  Normalization normalization_;
};

// Returns the number of images of each class.
std::vector<int64_t> images_of_classes(const Dataset& data);

// All images and labels in memory; what the file formats return, and a way to bring one's own
// bytes.
class MemoryDataset : public Dataset {
 public:
  // images [count x H x W x C], labels [count], each in [0, classes); throws Error otherwise.
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
  kSkip,   // left out and counted; every picture is decoded once when the data are opened
};

// Of pictures in folders.
enum class Channels {
  kGray,    // one; colours become their brightness
  kColour,  // red, green, blue; gray pictures have three equal ones
  kAuto,    // one where all pictures are stored in gray, else three
};

// Where "hdf5" finds what in a file that is no pack of ours. Paths may hold {split}, which becomes
// train and test; docs/data.md says what may lie there.
struct Hdf5Source {
  std::string images = {}, labels = {};  // "/{split}/images"; no images: the file is a pack
  std::string class_names = {};          // of a data set, or "PATH@ATTRIBUTE"
  std::string layout = "hwc";            // order of an image's dimensions: hwc, chw or cwh
  std::vector<double> range = {};        // low, high: the values of black and white
  double test_part = 0.1;                // without {split}: the part that becomes the test set
  int64_t cache = int64_t{256} << 20;    // bytes of decoded images kept, of each set
};

// Which images a training is judged by while it goes, so that the test set is kept for its end: a
// part of the training images, so many of them, or a folder of pictures. At most one is given.
struct ValidationSource {
  double percent = 0;       // of the training images, above 0 and below 100
  int64_t count = 0;        // of them
  std::string folder = {};  // "image_folder": classes as in train; from the root, or absolute
  bool any() const { return percent > 0 || count > 0 || !folder.empty(); }
  // How many of so many training images are held out, by percent or count.
  int64_t images(int64_t training) const;
  std::string text() const;  // "10%", "5000", "val", "none"
  bool operator==(const ValidationSource&) const = default;
};

// Which data to open.
struct DataSource {
  std::string name = "synthetic";  // one of data_names()
  std::string root = {};           // folder of the files, or the file of "hdf5"
  uint64_t seed = 1;               // "synthetic": which images are generated
  int64_t train_count = 0;         // so many, see subset.h; 0: all ("synthetic": 10000)
  int64_t test_count = 0;  // so many; 0: all ("synthetic": 2000). "image_folder" and "hdf5":
                           // where they lie class by class, of each class in proportion;
                           // the others, whose files are shuffled: the first
  int image_size = 0;      // "synthetic": height and width in pixels, 16 to 512; 0: 32
                           // "image_folder": the same, 1 to 4096; must be given
  bool coarse = false;     // "cifar100": the 20 coarse labels instead of the 100 fine ones
  Damaged damaged = Damaged::kError;  // "image_folder": pictures that do not decode
  // "image_folder": every picture is decoded when it is opened, so that the error for damaged ones
  // names them all.
  bool decode_all = false;
  Channels channels = Channels::kColour;  // "image_folder"
  bool follow_links = false;              // "image_folder": out of its root
  int readers = 2;  // "image_folder", "hdf5": how many threads can decode at once, 1 to 256
  Hdf5Source hdf5 = {};
  ValidationSource validation = {};  // of the training images that are left by train_count
  // Only the test set is wanted: files and folders of training images are not opened, and where
  // they are apart from it DataSplit::train is nullptr. The root of "image_folder" may then hold
  // the folders of the classes itself.
  bool test_only = false;
};

struct DataSplit {
  std::shared_ptr<const Dataset> train, test;           // train: nullptr with DataSource::test_only
  std::shared_ptr<const Dataset> validation = nullptr;  // where one was asked for
};

// hdf5, image_folder, synthetic and the published sets (sets/published.h), sorted.
const std::vector<std::string>& data_names();

// Throws ConfigError for a name or a count that cannot be had (the name's text lists the known
// ones), DataError for a missing folder or file (names the folder, the files looked for, the
// remedy) and for damaged ones (names file and byte offset).
DataSplit open_data(const DataSource& source);

// What open data hold.
struct DataNeed {
  ImageShape shape;                         // of an image; zeros where data_need() does not tell
  int64_t train_count = 0, test_count = 0;  // 0: only opening tells
  int classes = 0;                          // 0: only opening tells
  int64_t bytes = 0;                        // in memory
  bool complete = true;                     // false: opening may tell of more
  int64_t validation_count = 0;             // 0: there is none, or only opening tells
  bool operator==(const DataNeed&) const = default;
};
DataNeed data_need(const DataSplit& data);
// As far as it is cheap to know before: published data sets are taken to be whole, of a packed file
// the header and labels are read, of an image folder the files counted but none is opened (what
// their decoders take is then missing, and the files too where some may be skipped as damaged); but
// where the pictures decide about the channels it is opened. Throws as open_data() does for a
// packed file.
DataNeed data_need(const DataSource& source);

}  // namespace tessera
