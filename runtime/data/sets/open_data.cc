#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/runtime/data/sets/cifar.h"
#include "tessera/runtime/data/dataset.h"
#include "tessera/runtime/data/sets/idx.h"
#include "tessera/runtime/data/sets/image_folder.h"
#include "tessera/runtime/data/sets/packed.h"
#include "tessera/runtime/data/sets/subset.h"
#include "tessera/runtime/data/sets/synthetic.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

// Finds files in the data folder or in one of the folders that the published archives unpack to.
class Folder {
 public:
  Folder(const DataSource& source, std::vector<std::string> subfolders)
      : source_(source), subfolders_(std::move(subfolders)) {
    subfolders_.insert(subfolders_.begin(), "");
  }

  // The file of that name, or with one of the endings.
  std::string find(const std::string& name, const std::vector<std::string>& endings = {""}) const {
    std::vector<std::string> tried;
    std::error_code ignored;
    for (const std::string& subfolder : subfolders_) {
      for (const std::string& ending : endings) {
        fs::path file = fs::path(subfolder) / (name + ending);
        fs::path path = fs::path(source_.root) / file;
        if (fs::exists(path, ignored)) return path.string();
        tried.push_back(file.string());
      }
    }
    std::string folder = source_.root.empty() ? "." : source_.root;
    throw DataError(fmt::format(
        "data {}: {} '{}'; looked for {}; unpack the data set's "
        "files there or set data.root to the folder that has them",
        source_.name,
        fs::is_directory(folder, ignored) ? "a file is missing in folder"
                                          : "there is no such folder:",
        fs::absolute(folder, ignored).lexically_normal().string(), fmt::join(tried, ", ")));
  }

 private:
  const DataSource& source_;
  std::vector<std::string> subfolders_;
};

std::shared_ptr<const Dataset> some(std::shared_ptr<const Dataset> all, int64_t count,
                                    const char* key, Choice choice) {
  if (count == 0 || count == all->count()) return all;
  if (count < 0 || count > all->count()) {
    throw ConfigError(fmt::format("data.{}: {} is asked for, but {} has {} images; 0 takes all",
                                  key, count, all->name(), all->count()));
  }
  return subset(std::move(all), count, choice);
}

DataSplit open_idx(const DataSource& source, DatasetInfo info, const char* subfolder) {
  Folder folder(source, {subfolder});
  auto read = [&](const std::string& split, const std::string& prefix) {
    std::string images = folder.find(prefix + "-images-idx3-ubyte", {"", ".gz"});
    std::string labels = folder.find(prefix + "-labels-idx1-ubyte", {"", ".gz"});
    info.name = source.name + " " + split;
    return read_idx(images, labels, info);
  };
  return {read("train", "train"), read("test", "t10k")};
}

DataSplit open_mnist(const DataSource& source) {
  return open_idx(source,
                  {.name = "",
                   .shape = {},
                   .count = 0,
                   .classes = 10,
                   .class_names = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
                   .normalization = {{0.1307f}, {0.3081f}}},
                  "MNIST/raw");
}

DataSplit open_fashion_mnist(const DataSource& source) {
  return open_idx(source,
                  {.name = "",
                   .shape = {},
                   .count = 0,
                   .classes = 10,
                   .class_names = {"t-shirt", "trouser", "pullover", "dress", "coat", "sandal",
                                   "shirt", "sneaker", "bag", "ankle boot"},
                   .normalization = {{0.2860f}, {0.3530f}}},
                  "FashionMNIST/raw");
}

DataSplit open_cifar10(const DataSource& source) {
  Folder folder(source, {"cifar-10-batches-bin"});
  DatasetInfo info{.name = "cifar10 train",
                   .shape = {},
                   .count = 0,
                   .classes = 10,
                   .class_names = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog",
                                   "horse", "ship", "truck"},
                   .normalization = {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}}};
  std::vector<std::string> files;
  for (int i = 1; i <= 5; ++i) files.push_back(folder.find(fmt::format("data_batch_{}.bin", i)));
  std::string test_file = folder.find("test_batch.bin");
  auto train = read_cifar(files, {}, info);
  info.name = "cifar10 test";
  return {train, read_cifar({test_file}, {}, info)};
}

// A line for each class; none when the file is not there or is something else.
std::vector<std::string> read_class_names(const fs::path& path, int classes) {
  constexpr size_t kMaxBytes = 64;
  std::ifstream file(path);
  std::vector<std::string> names;
  for (std::string name; names.size() <= static_cast<size_t>(classes) && file >> name;) {
    if (name.size() > kMaxBytes) return {};
    names.push_back(name);
  }
  if (names.size() != static_cast<size_t>(classes)) names.clear();
  return names;
}

int cifar100_classes(const DataSource& source) { return source.coarse ? 20 : 100; }

DataSplit open_cifar100(const DataSource& source) {
  Folder folder(source, {"cifar-100-binary"});
  DatasetInfo info{.name = "cifar100 train",
                   .shape = {},
                   .count = 0,
                   .classes = cifar100_classes(source),
                   .class_names = {},
                   .normalization = {{0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}}};
  std::string train_file = folder.find("train.bin"), test_file = folder.find("test.bin");
  const char* names = source.coarse ? "coarse_label_names.txt" : "fine_label_names.txt";
  info.class_names = read_class_names(fs::path(train_file).parent_path() / names, info.classes);
  CifarFormat format{
      .label_bytes = 2, .label_at = source.coarse ? 0 : 1, .records_per_file = 50000};
  auto train = read_cifar({train_file}, format, info);
  format.records_per_file = 10000;
  info.name = "cifar100 test";
  return {train, read_cifar({test_file}, format, info)};
}

DataSplit open_folder(const DataSource& source) {
  if (source.image_size == 0)
    throw ConfigError(
        "data.image_size: image_folder needs it: pixels a side that every picture is "
        "brought to, such as 224");
  return open_image_folder(
      source.root,
      {.size = source.image_size, .damaged = source.damaged, .readers = source.readers});
}

// Into memory when that is small: made once then, not again each epoch.
constexpr int64_t kMaxKept = int64_t{256} << 20;

std::shared_ptr<const Dataset> keep_if_small(std::shared_ptr<const Dataset> made) {
  int64_t bytes = made->shape().bytes();
  if (made->count() * bytes > kMaxKept) return made;
  std::vector<uint8_t> images(static_cast<size_t>(made->count() * bytes));
  std::vector<int32_t> labels(static_cast<size_t>(made->count()));
  for (int64_t i = 0; i < made->count(); ++i) {
    made->read(i, images.data() + i * bytes);
    labels[static_cast<size_t>(i)] = static_cast<int32_t>(made->label(i));
  }
  return std::make_shared<MemoryDataset>(made->info(), std::move(images), std::move(labels));
}

int synthetic_size(const DataSource& source) {
  return source.image_size == 0 ? 32 : source.image_size;
}

std::pair<int64_t, int64_t> synthetic_counts(const DataSource& source) {
  return {source.train_count == 0 ? 10000 : source.train_count,
          source.test_count == 0 ? 2000 : source.test_count};
}

DataSplit open_synthetic(const DataSource& source) {
  const int size = synthetic_size(source);
  const auto [train, test] = synthetic_counts(source);
  return {keep_if_small(synthetic(source.seed, SyntheticSplit::kTrain, train, size)),
          keep_if_small(synthetic(source.seed, SyntheticSplit::kTest, test, size))};
}

struct Known {
  const char* name;
  DataSplit (*open)(const DataSource& source);
  // The published files are shuffled; a folder, and a pack of one, is sorted by class.
  Choice choice = Choice::kFirst;
};

constexpr Known kKnown[] = {
    {"cifar10", open_cifar10},
    {"cifar100", open_cifar100},
    {"fashion_mnist", open_fashion_mnist},
    {"hdf5", [](const DataSource& source) { return open_packed(source.root); },
     Choice::kProportion},
    {"image_folder", open_folder, Choice::kProportion},
    {"mnist", open_mnist},
    {"synthetic", open_synthetic}};

}  // namespace

const std::vector<std::string>& data_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Known& known : kKnown) all.push_back(known.name);
    return all;
  }();
  return names;
}

DataSplit open_data(const DataSource& source) {
  for (const Known& known : kKnown) {
    if (source.name != known.name) continue;
    bool sized = known.open == open_synthetic || known.open == open_folder;
    if (source.image_size != 0 && !sized) {
      throw ConfigError(
          fmt::format("data.image_size: only the images of image_folder and synthetic have a size "
                      "to choose, those of {} have their own",
                      source.name));
    }
    DataSplit split = known.open(source);
    return {some(split.train, source.train_count, "train_count", known.choice),
            some(split.test, source.test_count, "test_count", known.choice)};
  }
  throw ConfigError(fmt::format("data.name: '{}' is not known; known are {}", source.name,
                                fmt::join(data_names(), ", ")));
}

DataNeed data_need(const DataSplit& data) {
  DataNeed need{data.train->shape(), data.train->count(), data.test->count(), data.train->classes(),
                0};
  for (const Dataset* split : {data.train.get(), data.test.get()})
    for (const HostBuffer& buffer : split->host_buffers())
      need.bytes += static_cast<int64_t>(buffer.bytes);
  return need;
}

namespace {

// Where the folder is not there a plan can be made all the same.
DataNeed folder_need(const DataSource& source) {
  DataNeed need;
  need.complete = false;
  if (source.damaged == Damaged::kSkip) return need;
  try {
    const ImageFolderList list = list_image_folder(source.root);
    need.bytes = list.bytes;
    const auto counted = [&](int64_t all, int64_t wanted) {
      if (wanted <= 0 || wanted >= all) return all;
      need.bytes += subset_bytes(wanted);
      return wanted;
    };
    need.train_count = counted(list.train_count, source.train_count);
    need.test_count = counted(list.test_count, source.test_count);
  } catch (const DataError&) {
  }
  return need;
}

}  // namespace

DataNeed data_need(const DataSource& source) {
  constexpr int64_t kLabel = sizeof(int32_t);
  if (source.name == "hdf5") return data_need(open_data(source));
  if (source.name == "image_folder") return folder_need(source);
  if (source.name == "synthetic") {
    const auto [train, test] = synthetic_counts(source);
    const int64_t image = int64_t{3} * synthetic_size(source) * synthetic_size(source);
    DataNeed need{{}, train, test, kSyntheticClasses, 0};
    for (int64_t count : {train, test})
      if (count * image <= kMaxKept) need.bytes += count * (image + kLabel);
    return need;
  }
  const bool mnist = source.name == "mnist" || source.name == "fashion_mnist";
  if (!mnist && source.name != "cifar10" && source.name != "cifar100") return {};
  const int64_t train = mnist ? 60000 : 50000, test = 10000;
  const int64_t image = mnist ? 28 * 28 : 32 * 32 * 3;
  return {{},
          source.train_count == 0 ? train : std::min(train, source.train_count),
          source.test_count == 0 ? test : std::min(test, source.test_count),
          source.name == "cifar100" ? cifar100_classes(source) : 10,
          (train + test) * (image + kLabel)};
}

}  // namespace tessera
