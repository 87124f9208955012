#include "tessera/models/data/formats/data_file.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>
#include <zlib.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace fs = std::filesystem;

// Decompresses one or more gzip members that follow each other.
struct DataFile::Inflater {
  z_stream stream{};
  bool member_ended = false;  // the input stands between two members, or at the end
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
  if (fs::is_directory(path_, error)) throw DataError(path_ + ": is a folder, a file is needed");
  auto size = fs::file_size(path_, error);
  std::FILE* file = error ? nullptr : std::fopen(path_.c_str(), "rb");
  if (file == nullptr) {
    throw DataError(fmt::format("{}: cannot be opened: {}", path_,
                                error ? error.message() : std::strerror(errno)));
  }
  file_ = file;
  disk_bytes_ = static_cast<int64_t>(size);
  if (compressed_) inflater_ = std::make_unique<Inflater>();
}

DataFile::~DataFile() {
  if (file_ != nullptr) std::fclose(static_cast<std::FILE*>(file_));
}

int64_t DataFile::most_bytes() const {
  constexpr int64_t kMaxPerByte = 1032;  // zlib's technical notes: 1032:1 at best
  if (!compressed_) return disk_bytes_;
  return disk_bytes_ > INT64_MAX / kMaxPerByte ? INT64_MAX : disk_bytes_ * kMaxPerByte;
}

void DataFile::read(void* bytes, size_t size, const char* what) {
  size_t got = read_some(static_cast<uint8_t*>(bytes), size);
  if (got == size) return;
  fail(offset_, fmt::format("the file ends within {}: {} more bytes are needed; it is truncated, "
                            "get it again",
                            what, size - got));
}

void DataFile::expect_end(const char* what) {
  uint8_t extra;
  int64_t end = offset_;
  if (read_some(&extra, 1) == 0) return;
  std::string more =
      compressed_ ? "more bytes follow" : fmt::format("{} more bytes follow", disk_bytes_ - end);
  fail(end,
       fmt::format("the file should end after {}, but {}; it is oversized or not what its name "
                   "says",
                   what, more));
}

void DataFile::fail(int64_t offset, const std::string& text) const {
  throw DataError(
      fmt::format("{}: byte {}{}: {}", path_, offset, compressed_ ? " (decompressed)" : "", text));
}

size_t DataFile::read_disk(uint8_t* bytes, size_t size) {
  auto* file = static_cast<std::FILE*>(file_);
  size_t got = std::fread(bytes, 1, size, file);
  if (got < size && std::ferror(file)) {
    throw DataError(fmt::format("{}: byte {}: reading failed: {}", path_, std::ftell(file),
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
    throw DataError(
        fmt::format("{}: byte {} of the compressed file: {}; it is damaged or not gzip, "
                    "get it again",
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
      if (*stream.next_in != kGzip) damaged("after its end come bytes that are no gzip data");
      inflateReset(&stream);
      inflater.member_ended = false;
    }
    auto room = static_cast<uInt>(std::min<size_t>(size - done, 1u << 30));
    stream.next_out = bytes + done;
    stream.avail_out = room;
    int result = inflate(&stream, Z_NO_FLUSH);
    size_t made = room - stream.avail_out;
    done += made;
    offset_ += static_cast<int64_t>(made);
    inflater.member_ended = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      damaged(stream.msg != nullptr ? stream.msg : "inflate fails");
    }
  }
  return done;
}

}  // namespace tessera
