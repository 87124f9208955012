#include "tessera/models/data/sets/published.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <zlib.h>

#include "tessera/models/data/sets/subset.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

using Names = std::vector<std::string>;

struct FileSum {
  const char* sha256;
  int64_t bytes;
};

// A set in the format of MNIST. sums: of the training images, the training labels, then the test's.
PublishedSet like_mnist(const char* name, Names classes, Normalization normalization,
                        const char* folder, Names mirrors, const FileSum (&sums)[4]) {
  PublishedSet set{.name = name,
                   .format = PublishedFormat::kIdx,
                   .shape = {28, 28, 1},
                   .train_count = 60000,
                   .test_count = 10000,
                   .labels = {{10, std::move(classes), ""}},
                   .normalization = std::move(normalization),
                   .folder = folder,
                   .train = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
                   .test = {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"},
                   .mirrors = std::move(mirrors),
                   .downloads = {}};
  for (const Names* files : {&set.train, &set.test})
    for (const std::string& file : *files) {
      const auto& [sha256, bytes] = sums[set.downloads.size()];
      set.downloads.push_back({file + ".gz", sha256, bytes});
    }
  return set;
}

PublishedSet mnist() {
  return like_mnist("mnist", {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
                    {{0.1307f}, {0.3081f}}, "MNIST/raw",
                    {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                     "https://storage.googleapis.com/cvdf-datasets/mnist/"},
                    {{"440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9912422},
                     {"3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28881},
                     {"8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1648877},
                     {"f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4542}});
}

PublishedSet fashion_mnist() {
  return like_mnist(
      "fashion_mnist",
      {"t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag",
       "ankle boot"},
      {{0.2860f}, {0.3530f}}, "FashionMNIST/raw",
      {"https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
       "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
      {{"3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", 26421880},
       {"a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", 29515},
       {"346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", 4422102},
       {"67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", 5148}});
}

// A set in the format of CIFAR-10, whose files are unpacked from one archive.
PublishedSet like_cifar(const char* name, std::vector<PublishedLabels> labels,
                        Normalization normalization, const char* folder, Names train, Names test,
                        PublishedFile archive) {
  return {.name = name,
          .format = PublishedFormat::kCifar,
          .shape = {32, 32, 3},
          .train_count = 50000,
          .test_count = 10000,
          .labels = std::move(labels),
          .normalization = std::move(normalization),
          .folder = folder,
          .train = std::move(train),
          .test = std::move(test),
          .mirrors = {"https://www.cs.toronto.edu/~kriz/"},
          .downloads = {std::move(archive)}};
}

PublishedSet cifar10() {
  return like_cifar(
      "cifar10",
      {{10,
        {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"},
        ""}},
      {{0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}}, "cifar-10-batches-bin",
      {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
       "data_batch_5.bin"},
      {"test_batch.bin"},
      {"cifar-10-binary.tar.gz", "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
       170052171});
}

PublishedSet cifar100() {
  return like_cifar(
      "cifar100", {{20, {}, "coarse_label_names.txt"}, {100, {}, "fine_label_names.txt"}},
      {{0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}}, "cifar-100-binary", {"train.bin"},
      {"test.bin"},
      {"cifar-100-binary.tar.gz",
       "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec", 168513733});
}

// A file read sequentially, plain or gzip-compressed (if its name ends in ".gz"). All errors are
// DataErrors that name the file and the byte offset. Not thread-safe.
class DataFile {
 public:
  // Throws DataError if the file cannot be opened.
  explicit DataFile(std::string path) : path_(std::move(path)) {
    std::error_code error;
    if (std::filesystem::is_directory(path_, error))
      throw DataError(path_ + ": is a folder, but must be a file");
    const auto size = std::filesystem::file_size(path_, error);
    if (!error) file_ = std::fopen(path_.c_str(), "rb");
    if (file_ == nullptr)
      throw DataError(fmt::format("{}: cannot be opened: {}", path_,
                                  error ? error.message() : std::strerror(errno)));
    disk_bytes_ = static_cast<int64_t>(size);
    if (path_.ends_with(".gz")) inflater_ = std::make_unique<Inflater>();
  }
  ~DataFile() {
    if (file_ != nullptr) std::fclose(file_);
  }
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  bool compressed() const { return inflater_ != nullptr; }
  // Returns the bytes of the file on the disk.
  int64_t disk_bytes() const { return disk_bytes_; }
  // Returns the position in the contents: bytes read so far, decompressed.
  int64_t offset() const { return offset_; }
  // Returns the most bytes that the contents can have: the size of the file, or the most that
  // deflate can make of it. Check it before allocating memory for sizes in a header.
  int64_t max_bytes() const {
    constexpr int64_t kMaxPerByte = 1032;  // zlib's technical notes: 1032:1 at best
    if (!compressed()) return disk_bytes_;
    return disk_bytes_ > INT64_MAX / kMaxPerByte ? INT64_MAX : disk_bytes_ * kMaxPerByte;
  }

  // Fills bytes [0, size). Throws if the contents end before (what: "image 17").
  void read(void* bytes, size_t size, const char* what) {
    const size_t got = read_some(static_cast<uint8_t*>(bytes), size);
    if (got == size) return;
    fail(offset_, fmt::format("the file ends within {}: {} more bytes are needed; it is truncated; "
                              "download it again",
                              what, size - got));
  }
  // Throws unless the contents, and a compressed file's checksum, end here.
  void expect_end(const char* what) {
    uint8_t extra;
    const int64_t end = offset_;
    if (read_some(&extra, 1) == 0) return;
    const std::string more =
        compressed() ? "more bytes follow" : fmt::format("{} more bytes follow", disk_bytes_ - end);
    fail(end,
         fmt::format("the file should end after {}, but {}; it is oversized or has the wrong name",
                     what, more));
  }

  // Throws DataError "PATH: byte OFFSET: text".
  [[noreturn]] void fail(int64_t offset, const std::string& text) const {
    throw DataError(fmt::format("{}: byte {}{}: {}", path_, offset,
                                compressed() ? " (decompressed)" : "", text));
  }

 private:
  // Decompresses one or more consecutive gzip members.
  struct Inflater {
    z_stream stream{};
    bool member_ended = false;  // the input is between two members, or at the end
    int64_t consumed = 0;       // compressed bytes given to zlib
    uint8_t input[16384];

    Inflater() {
      constexpr int kWindowBits = 15, kGzipOnly = 16;
      if (inflateInit2(&stream, kWindowBits + kGzipOnly) != Z_OK) throw std::bad_alloc();
    }
    ~Inflater() { inflateEnd(&stream); }
  };

  [[noreturn]] void fail_inflating(const std::string& why) const {
    throw DataError(fmt::format(
        "{}: byte {} of the compressed file: {}; it is damaged or not gzip; download it again",
        path_, inflater_->consumed - inflater_->stream.avail_in, why));
  }

  size_t read_disk(uint8_t* bytes, size_t size) {
    const size_t got = std::fread(bytes, 1, size, file_);
    if (got < size && std::ferror(file_))
      throw DataError(fmt::format("{}: byte {}: reading failed: {}", path_, std::ftell(file_),
                                  std::strerror(errno)));
    return got;
  }

  // Returns the number of bytes read: fewer only at the end.
  size_t read_some(uint8_t* bytes, size_t size) {
    const size_t got = compressed() ? inflate_some(bytes, size) : read_disk(bytes, size);
    offset_ += static_cast<int64_t>(got);
    return got;
  }

  size_t inflate_some(uint8_t* bytes, size_t size) {
    Inflater& inflater = *inflater_;
    z_stream& stream = inflater.stream;
    size_t done = 0;
    while (done < size) {
      if (stream.avail_in == 0) {
        const size_t got = read_disk(inflater.input, sizeof inflater.input);
        stream.next_in = inflater.input;
        stream.avail_in = static_cast<uInt>(got);
        inflater.consumed += static_cast<int64_t>(got);
        if (got == 0 && inflater.member_ended) break;
        if (got == 0) fail_inflating("the compressed data end too early");
      }
      if (inflater.member_ended) {
        constexpr uint8_t kGzip = 0x1f;
        if (*stream.next_in != kGzip) fail_inflating("the bytes after its end are not gzip data");
        inflateReset(&stream);
        inflater.member_ended = false;
      }
      const auto capacity = static_cast<uInt>(std::min<size_t>(size - done, 1u << 30));
      stream.next_out = bytes + done;
      stream.avail_out = capacity;
      const int result = inflate(&stream, Z_NO_FLUSH);
      done += capacity - stream.avail_out;
      inflater.member_ended = result == Z_STREAM_END;
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
        fail_inflating(stream.msg != nullptr ? stream.msg : "inflate fails");
    }
    return done;
  }

  const std::string path_;
  int64_t disk_bytes_ = 0, offset_ = 0;
  std::FILE* file_ = nullptr;
  std::unique_ptr<Inflater> inflater_;
};

constexpr uint8_t kUint8 = 0x08;

void check_magic(const DataFile& file, const std::array<uint8_t, 4>& magic, int dims,
                 const char* kind) {
  if (magic == std::array<uint8_t, 4>{0, 0, kUint8, static_cast<uint8_t>(dims)}) return;
  std::string hint = "it is not an IDX file of bytes";
  if (magic[0] == 0x1f && magic[1] == 0x8b) {
    hint = "it is gzip-compressed; rename it so that its name ends in .gz";
  } else if (magic[0] == 0 && magic[1] == 0 && magic[2] == kUint8) {
    hint = fmt::format("it has {} dimensions: {}", magic[3],
                       magic[3] == 1 ? "labels, not images" : "neither images nor labels");
    if (magic[3] == 3) hint = "it has 3 dimensions: images, not labels";
  }
  file.fail(0, fmt::format("{} must begin with 00 00 08 {:02x}, found {:02x} {:02x} {:02x} {:02x}; "
                           "{}",
                           kind, dims, magic[0], magic[1], magic[2], magic[3], hint));
}

// Reads the header of a file with `dims` dimensions (at most 3) and returns them. Throws DataError
// unless they fit the file.
std::array<int64_t, 3> read_header(DataFile& file, int dims, const char* kind) {
  constexpr int64_t kMaxPixels = 1 << 14;  // per side
  std::array<uint8_t, 4> bytes;
  file.read(bytes.data(), bytes.size(), "the header");
  check_magic(file, bytes, dims, kind);
  std::array<int64_t, 3> sizes = {1, 1, 1};
  for (int d = 0; d < dims; ++d) {
    int64_t at = file.offset();
    file.read(bytes.data(), bytes.size(), "the header");
    int64_t size = int64_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
    if (size < 1 || (d > 0 && size > kMaxPixels)) {
      file.fail(at, fmt::format("dimension {} is {}, which is impossible; the header is damaged", d,
                                size));
    }
    sizes[static_cast<size_t>(d)] = size;
  }
  int64_t header = file.offset();
  int64_t needed = header + sizes[0] * sizes[1] * sizes[2];  // < 2^32 * 2^28
  bool fits = file.compressed() ? needed <= file.max_bytes() : needed == file.disk_bytes();
  if (!fits) {
    int64_t end = file.compressed() ? header : std::min(file.disk_bytes(), needed);
    file.fail(end, fmt::format("{} [{}x{}x{}] need {} bytes with the header, but the file has "
                               "{}{}; it is {}; download it again",
                               kind, sizes[0], sizes[1], sizes[2], needed, file.disk_bytes(),
                               file.compressed() ? " compressed bytes, too few for that" : "",
                               needed > file.disk_bytes() ? "truncated or its header is damaged"
                                                          : "oversized"));
  }
  return sizes;
}

// Reads the first `count` of `all` labels.
std::vector<int32_t> read_labels(DataFile& file, int64_t count, int64_t all, int classes) {
  std::vector<int32_t> labels(static_cast<size_t>(count));
  int64_t header = file.offset();
  std::array<uint8_t, 4096> bytes;
  for (size_t done = 0; done < labels.size();) {
    size_t part = std::min(bytes.size(), labels.size() - done);
    file.read(bytes.data(), part, "the labels");
    for (size_t i = 0; i < part; ++i, ++done) {
      labels[done] = bytes[i];
      if (bytes[i] < classes) continue;
      file.fail(header + static_cast<int64_t>(done),
                fmt::format("label {} of image {} is not in [0, {})", bytes[i], done, classes));
    }
  }
  if (count == all) file.expect_end("the last label");
  return labels;
}

constexpr int64_t kSide = 32, kPlane = kSide * kSide, kPixels = 3 * kPlane;

void check_size(const DataFile& file, const CifarFormat& format) {
  int64_t record = format.label_bytes + kPixels;
  int64_t needed = record * format.records_per_file, size = file.disk_bytes();
  if (size == needed) return;
  file.fail(std::min(size, needed),
            fmt::format("{} records of {} bytes need {} bytes, but the file has {} ({} records and "
                        "{} bytes); it is {}; download it again",
                        format.records_per_file, record, needed, size, size / record, size % record,
                        size < needed ? "truncated" : "oversized"));
}

void interleave(const uint8_t* planes, uint8_t* image) {
  for (int64_t i = 0; i < kPlane; ++i)
    for (int64_t c = 0; c < 3; ++c) image[3 * i + c] = planes[c * kPlane + i];
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

std::shared_ptr<const Dataset> read_idx(const std::string& images, const std::string& labels,
                                        DatasetInfo info, int64_t most) {
  DataFile image_file(images), label_file(labels);
  auto dims = read_header(image_file, 3, "images");
  auto label_dims = read_header(label_file, 1, "labels");
  if (dims[0] != label_dims[0]) {
    label_file.fail(4, fmt::format("{} labels, but {} has {} images; the two files do not belong "
                                   "together",
                                   label_dims[0], images, dims[0]));
  }
  info.count = most > 0 ? std::min(most, dims[0]) : dims[0];
  info.shape = {static_cast<int>(dims[1]), static_cast<int>(dims[2]), 1};
  std::vector<int32_t> numbers = read_labels(label_file, info.count, dims[0], info.classes);
  std::vector<uint8_t> pixels(static_cast<size_t>(info.count * info.shape.bytes()));
  image_file.read(pixels.data(), pixels.size(), "the images");
  if (info.count == dims[0]) image_file.expect_end("the last image");
  const int64_t count = info.count;
  return std::make_shared<MemoryDataset>(std::move(info), std::move(pixels), std::move(numbers),
                                         first_images_note(count, dims[0]));
}

std::shared_ptr<const Dataset> read_cifar(const std::vector<std::string>& files,
                                          const CifarFormat& format, DatasetInfo info,
                                          int64_t most) {
  for (const std::string& path : files) check_size(DataFile(path), format);
  info.shape = {kSide, kSide, 3};
  info.count = static_cast<int64_t>(files.size()) * format.records_per_file;
  const int64_t all = info.count;
  if (most > 0) info.count = std::min(all, most);
  std::vector<uint8_t> images(static_cast<size_t>(info.count * kPixels));
  std::vector<int32_t> labels(static_cast<size_t>(info.count));
  std::array<uint8_t, 2 + kPixels> record;
  auto label_bytes = static_cast<size_t>(format.label_bytes);
  size_t n = 0;
  for (const std::string& path : files) {
    if (n == labels.size()) break;
    DataFile file(path);
    for (int64_t r = 0; r < format.records_per_file && n < labels.size(); ++r, ++n) {
      int64_t at = file.offset();
      file.read(record.data(), label_bytes + kPixels, "a record");
      labels[n] = record[static_cast<size_t>(format.label_at)];
      if (labels[n] >= info.classes) {
        file.fail(at + format.label_at,
                  fmt::format("label {} of record {} is not in [0, {}); the file is damaged or "
                              "belongs to another data set",
                              labels[n], r, info.classes));
      }
      interleave(record.data() + label_bytes, images.data() + n * kPixels);
    }
  }
  const int64_t count = info.count;
  return std::make_shared<MemoryDataset>(std::move(info), std::move(images), std::move(labels),
                                         first_images_note(count, all));
}

}  // namespace tessera
