#include "tessera/models/run/thumbnail.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <zlib.h>

namespace tessera {
namespace {

using Bytes = std::vector<uint8_t>;

void put_number(Bytes& to, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<uint8_t>(number >> shift));
}

void put_chunk(Bytes& to, std::string_view type, const Bytes& data) {
  put_number(to, static_cast<uint32_t>(data.size()));
  const size_t start = to.size();
  to.insert(to.end(), type.begin(), type.end());
  to.insert(to.end(), data.begin(), data.end());
  put_number(
      to, static_cast<uint32_t>(crc32(0, to.data() + start, static_cast<uInt>(to.size() - start))));
}

// As one block that is stored as it is: no working memory is asked for when training is over.
Bytes stored(const Bytes& bytes) {
  const auto size = static_cast<uint16_t>(bytes.size());
  Bytes packed{0x78, 0x01, 1};
  for (const int part : {size & 0xff, size >> 8, ~size & 0xff, ~size >> 8 & 0xff})
    packed.push_back(static_cast<uint8_t>(part));
  packed.insert(packed.end(), bytes.begin(), bytes.end());
  put_number(packed,
             static_cast<uint32_t>(adler32(1, bytes.data(), static_cast<uInt>(bytes.size()))));
  return packed;
}

// Rows of `width` pixels, each behind a filter byte of 0; less than 64 KiB in all.
Bytes png(const Bytes& rows, int width, int height, int channels) {
  Bytes file{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, header;
  put_number(header, static_cast<uint32_t>(width));
  put_number(header, static_cast<uint32_t>(height));
  const uint8_t colour = channels == 3 ? 2 : 0;
  header.insert(header.end(), {8, colour, 0, 0, 0});
  put_chunk(file, "IHDR", header);
  put_chunk(file, "IDAT", stored(rows));
  put_chunk(file, "IEND", {});
  return file;
}

std::string base64(const Bytes& bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? bytes[i + k] : 0);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

}  // namespace

std::string thumbnail_uri(const uint8_t* image, const ImageShape& shape, int most) {
  const int channels = shape.channels;
  if ((channels != 1 && channels != 3) || shape.bytes() == 0) return "";
  const int factor = (std::max(shape.height, shape.width) + most - 1) / most;
  const int height = std::max(1, shape.height / factor), width = std::max(1, shape.width / factor);
  Bytes rows;
  for (int y = 0; y < height; ++y) {
    rows.push_back(0);
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        int sum = 0, count = 0;  // the mean of factor x factor pixels
        for (int v = y * factor; v < std::min((y + 1) * factor, shape.height); ++v)
          for (int u = x * factor; u < std::min((x + 1) * factor, shape.width); ++u, ++count)
            sum += image[(static_cast<int64_t>(v) * shape.width + u) * channels + c];
        rows.push_back(static_cast<uint8_t>((sum + count / 2) / std::max(count, 1)));
      }
    }
  }
  return "data:image/png;base64," + base64(png(rows, width, height, channels));
}

}  // namespace tessera
