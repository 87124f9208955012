#include "tessera/models/data/images/picture.h"

#include <cerrno>
#include <chrono>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tessera/models/data/images/picture_formats.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

const picture::Decoder& decoder_of(std::span<const uint8_t> bytes, const std::string& name) {
  constexpr uint8_t kPng[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  if (bytes.size() >= sizeof kPng && std::memcmp(bytes.data(), kPng, sizeof kPng) == 0)
    return picture::kPng;
  if (bytes.size() >= 2 && bytes[0] == 0xff && bytes[1] == 0xd8) return picture::kJpeg;
  if (bytes.size() >= 12 && std::memcmp(bytes.data(), "RIFF", 4) == 0 &&
      std::memcmp(bytes.data() + 8, "WEBP", 4) == 0)
    return picture::kWebp;
  picture::fail(name, bytes.empty() ? "the file is empty" : "it is no JPEG, PNG or WebP picture");
}

thread_local double t_file_seconds = 0;

}  // namespace

namespace picture {

void fail(const std::string& name, const std::string& why) {
  throw DataError(fmt::format("{}: {}", name, why));
}

void check_size(const std::string& name, int64_t width, int64_t height,
                const PictureLimits& limits) {
  if (width < 1 || height < 1)
    fail(name, fmt::format("it has {}x{} pixels, but must have at least 1x1", width, height));
  if (height > limits.pixels / width)
    fail(name, fmt::format("it has {}x{} pixels, but at most {} are allowed", width, height,
                           limits.pixels));
}

int exif_orientation(std::span<const uint8_t> tiff) {
  constexpr uint32_t kOrientation = 0x0112, kShort = 3;
  if (tiff.size() < 8) return 1;
  bool little = tiff[0] == 'I' && tiff[1] == 'I';
  if (!little && !(tiff[0] == 'M' && tiff[1] == 'M')) return 1;
  auto number = [&](size_t at, size_t bytes) {
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | tiff[at + (little ? bytes - 1 - i : i)];
    return value;
  };
  size_t directory = number(4, 4);
  if (number(2, 2) != 42 || directory > tiff.size() - 2) return 1;
  size_t entries = number(directory, 2);
  for (size_t i = 0; i < entries; ++i) {
    size_t at = directory + 2 + 12 * i;
    if (at + 12 > tiff.size()) return 1;
    if (number(at, 2) != kOrientation) continue;
    uint32_t value = number(at + 2, 2) == kShort ? number(at + 8, 2) : 0;
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace picture

Picture probe_picture(std::span<const uint8_t> bytes, const std::string& name,
                      const PictureLimits& limits) {
  return decoder_of(bytes, name).probe(bytes, name, limits);
}

void decode_picture(std::span<const uint8_t> bytes, const std::string& name, int shrink,
                    RowSink& sink, std::vector<uint8_t>& scratch, const PictureLimits& limits) {
  decoder_of(bytes, name).decode(bytes, name, shrink, sink, scratch, limits);
}

PixelCoordinate stored_pixel(int orientation, int height, int width, int y, int x) {
  PixelCoordinate place = orientation >= 5 ? PixelCoordinate{x, y} : PixelCoordinate{y, x};
  bool flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  bool flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  if (flip_y) place.y = height - 1 - place.y;
  if (flip_x) place.x = width - 1 - place.x;
  return place;
}

double file_seconds() { return t_file_seconds; }

void read_regular_file(const std::string& path, int64_t max_bytes, std::vector<uint8_t>& bytes) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  auto fail = [&](const std::string& why) { picture::fail(path, why); };
  struct File {
    int number;
    ~File() {
      if (number >= 0) close(number);
    }
  } file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (file.number < 0) fail(fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat status {};
  if (fstat(file.number, &status) != 0) fail(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail("is not a regular file");
  if (status.st_size > max_bytes)
    fail(fmt::format("has {} bytes, but at most {} are allowed", status.st_size, max_bytes));
  bytes.resize(static_cast<size_t>(status.st_size));
  for (size_t done = 0; done < bytes.size();) {
    ssize_t got = ::read(file.number, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(fmt::format("byte {}: reading failed: {}", done, std::strerror(errno)));
    if (got == 0) fail(fmt::format("byte {}: the file has become shorter while it was read", done));
    done += static_cast<size_t>(got);
  }
  t_file_seconds += std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace tessera
