#include "tessera/models/data/sets/published_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>
#include <zlib.h>

#include "tessera/models/data/sets/subset.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// A file read sequentially, plain or gzip-compressed (if its name ends in ".gz"). All errors are
// DataErrors that name the file and the byte offset. Not thread-safe.
class DataFile {
 public:
  // Throws DataError if the file cannot be opened.
  explicit DataFile(std::string path);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  const std::string& path() const { return path_; }
  bool compressed() const { return compressed_; }
  // Returns the bytes of the file on the disk.
  int64_t disk_bytes() const { return disk_bytes_; }
  // Returns the position in the contents: bytes read so far, decompressed.
  int64_t offset() const { return offset_; }
  // Returns the most bytes that the contents can have: the size of the file, or the most that
  // deflate can make of it. Check it before allocating memory for sizes in a header.
  int64_t max_bytes() const;

  // Fills bytes [0, size). Throws if the contents end before (what: "image 17").
  void read(void* bytes, size_t size, const char* what);
  // Throws unless the contents, and a compressed file's checksum, end here.
  void expect_end(const char* what);

  // Throws DataError "PATH: byte OFFSET: text".
  [[noreturn]] void fail(int64_t offset, const std::string& text) const;

 private:
  struct Inflater;
  size_t read_some(uint8_t* bytes, size_t size);  // fewer only at the end
  size_t read_disk(uint8_t* bytes, size_t size);

  std::string path_;
  bool compressed_ = false;
  int64_t disk_bytes_ = 0, offset_ = 0;
  std::FILE* file_ = nullptr;
  std::unique_ptr<Inflater> inflater_;
};

namespace fs = std::filesystem;

// Decompresses one or more consecutive gzip members.
struct DataFile::Inflater {
  z_stream stream{};
  bool member_ended = false;  // the input is between two members, or at the end
  int64_t consumed = 0;       // compressed bytes given to zlib
  uint8_t input[16384];

  Inflater() {
    constexpr int kWindowBits = 15, kGzipOnly = 16;
    if (inflateInit2(&stream, kWindowBits + kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
  int64_t disk_offset() const { return consumed - stream.avail_in; }
};

DataFile::DataFile(std::string path)
    : path_(std::move(path)), compressed_(std::string_view(path_).ends_with(".gz")) {
  std::error_code error;
  if (fs::is_directory(path_, error)) throw DataError(path_ + ": is a folder, but must be a file");
  auto size = fs::file_size(path_, error);
  if (!error) file_ = std::fopen(path_.c_str(), "rb");
  if (file_ == nullptr) {
    throw DataError(fmt::format("{}: cannot be opened: {}", path_,
                                error ? error.message() : std::strerror(errno)));
  }
  disk_bytes_ = static_cast<int64_t>(size);
  if (compressed_) inflater_ = std::make_unique<Inflater>();
}

DataFile::~DataFile() {
  if (file_ != nullptr) std::fclose(file_);
}

int64_t DataFile::max_bytes() const {
  constexpr int64_t kMaxPerByte = 1032;  // zlib's technical notes: 1032:1 at best
  if (!compressed_) return disk_bytes_;
  return disk_bytes_ > INT64_MAX / kMaxPerByte ? INT64_MAX : disk_bytes_ * kMaxPerByte;
}

void DataFile::read(void* bytes, size_t size, const char* what) {
  size_t got = read_some(static_cast<uint8_t*>(bytes), size);
  if (got == size) return;
  fail(offset_,
       fmt::format(
           "the file ends within {}: {} more bytes are needed; it is truncated; download it again",
           what, size - got));
}

void DataFile::expect_end(const char* what) {
  uint8_t extra;
  int64_t end = offset_;
  if (read_some(&extra, 1) == 0) return;
  std::string more =
      compressed_ ? "more bytes follow" : fmt::format("{} more bytes follow", disk_bytes_ - end);
  fail(end,
       fmt::format("the file should end after {}, but {}; it is oversized or has the wrong name",
                   what, more));
}

void DataFile::fail(int64_t offset, const std::string& text) const {
  throw DataError(
      fmt::format("{}: byte {}{}: {}", path_, offset, compressed_ ? " (decompressed)" : "", text));
}

size_t DataFile::read_disk(uint8_t* bytes, size_t size) {
  size_t got = std::fread(bytes, 1, size, file_);
  if (got < size && std::ferror(file_)) {
    throw DataError(fmt::format("{}: byte {}: reading failed: {}", path_, std::ftell(file_),
                                std::strerror(errno)));
  }
  return got;
}

size_t DataFile::read_some(uint8_t* bytes, size_t size) {
  if (!compressed_) {
    size_t got = read_disk(bytes, size);
    offset_ += static_cast<int64_t>(got);
    return got;
  }
  Inflater& inflater = *inflater_;
  z_stream& stream = inflater.stream;
  auto damaged = [&](const std::string& why) {
    throw DataError(fmt::format(
        "{}: byte {} of the compressed file: {}; it is damaged or not gzip; download it again",
        path_, inflater.disk_offset(), why));
  };
  size_t done = 0;
  while (done < size) {
    if (stream.avail_in == 0) {
      size_t got = read_disk(inflater.input, sizeof inflater.input);
      stream.next_in = inflater.input;
      stream.avail_in = static_cast<uInt>(got);
      inflater.consumed += static_cast<int64_t>(got);
      if (got == 0 && inflater.member_ended) break;
      if (got == 0) damaged("the compressed data end too early");
    }
    if (inflater.member_ended) {
      constexpr uint8_t kGzip = 0x1f;
      if (*stream.next_in != kGzip) damaged("the bytes after its end are not gzip data");
      inflateReset(&stream);
      inflater.member_ended = false;
    }
    auto capacity = static_cast<uInt>(std::min<size_t>(size - done, 1u << 30));
    stream.next_out = bytes + done;
    stream.avail_out = capacity;
    int result = inflate(&stream, Z_NO_FLUSH);
    size_t made = capacity - stream.avail_out;
    done += made;
    offset_ += static_cast<int64_t>(made);
    inflater.member_ended = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      damaged(stream.msg != nullptr ? stream.msg : "inflate fails");
    }
  }
  return done;
}

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

}  // namespace

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

namespace {

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
  for (int64_t i = 0; i < kPlane; ++i) {
    for (int64_t c = 0; c < 3; ++c) image[3 * i + c] = planes[c * kPlane + i];
  }
}

}  // namespace

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
