#include "tessera/models/data/sets/published.h"

namespace tessera {

namespace {

using Names = std::vector<std::string>;

Names idx_files(const std::string& split) {
  return {split + "-images-idx3-ubyte", split + "-labels-idx1-ubyte"};
}

PublishedSet mnist() {
  return {
      .name = "mnist",
      .format = PublishedFormat::kIdx,
      .shape = {28, 28, 1},
      .train_count = 60000,
      .test_count = 10000,
      .labels = {{10, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, ""}},
      .normalization = {{0.1307f}, {0.3081f}},
      .folder = "MNIST/raw",
      .train = idx_files("train"),
      .test = idx_files("t10k"),
      .mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                  "https://storage.googleapis.com/cvdf-datasets/mnist/"},
      .downloads = {{"train-images-idx3-ubyte.gz",
                     "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9912422},
                    {"train-labels-idx1-ubyte.gz",
                     "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28881},
                    {"t10k-images-idx3-ubyte.gz",
                     "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1648877},
                    {"t10k-labels-idx1-ubyte.gz",
                     "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4542}}};
}

PublishedSet fashion_mnist() {
  return {
      .name = "fashion_mnist",
      .format = PublishedFormat::kIdx,
      .shape = {28, 28, 1},
      .train_count = 60000,
      .test_count = 10000,
      .labels = {{10,
                  {"t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker",
                   "bag", "ankle boot"},
                  ""}},
      .normalization = {{0.2860f}, {0.3530f}},
      .folder = "FashionMNIST/raw",
      .train = idx_files("train"),
      .test = idx_files("t10k"),
      .mirrors =
          {"https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
           "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
      .downloads = {{"train-images-idx3-ubyte.gz",
                     "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", 26421880},
                    {"train-labels-idx1-ubyte.gz",
                     "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", 29515},
                    {"t10k-images-idx3-ubyte.gz",
                     "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", 4422102},
                    {"t10k-labels-idx1-ubyte.gz",
                     "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", 5148}}};
}

PublishedSet cifar10() {
  return {.name = "cifar10",
          .format = PublishedFormat::kCifar,
          .shape = {32, 32, 3},
          .train_count = 50000,
          .test_count = 10000,
          .labels = {{10,
                      {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse",
                       "ship", "truck"},
                      ""}},
          .normalization = {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}},
          .folder = "cifar-10-batches-bin",
          .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                    "data_batch_5.bin"},
          .test = {"test_batch.bin"},
          .mirrors = {"https://www.cs.toronto.edu/~kriz/"},
          .downloads = {{"cifar-10-binary.tar.gz",
                         "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                         170052171}}};
}

PublishedSet cifar100() {
  return {.name = "cifar100",
          .format = PublishedFormat::kCifar,
          .shape = {32, 32, 3},
          .train_count = 50000,
          .test_count = 10000,
          .labels = {{20, {}, "coarse_label_names.txt"}, {100, {}, "fine_label_names.txt"}},
          .normalization = {{0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}},
          .folder = "cifar-100-binary",
          .train = {"train.bin"},
          .test = {"test.bin"},
          .mirrors = {"https://www.cs.toronto.edu/~kriz/"},
          .downloads = {{"cifar-100-binary.tar.gz",
                         "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
                         168513733}}};
}

}  // namespace

std::vector<std::string> PublishedSet::members() const {
  Names files = train;
  files.insert(files.end(), test.begin(), test.end());
  for (const PublishedLabels& kind : labels)
    if (!kind.names_file.empty()) files.push_back(kind.names_file);
  for (std::string& file : files) file.insert(0, folder + "/");
  return files;
}

const std::vector<PublishedSet>& published_sets() {
  static const std::vector<PublishedSet> sets = {mnist(), fashion_mnist(), cifar10(), cifar100()};
  return sets;
}

const Normalization& imagenet_normalization() {
  static const Normalization values{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
  return values;
}

const PublishedSet* find_published(std::string_view name) {
  for (const PublishedSet& set : published_sets())
    if (set.name == name) return &set;
  return nullptr;
}

}  // namespace tessera
