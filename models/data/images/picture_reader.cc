#include "tessera/models/data/images/picture_reader.h"

#include <algorithm>
#include <cstring>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

ResampleAxis mirrored(ResampleAxis axis, double side) {
  axis.begin = side - axis.begin - axis.size;
  axis.first = axis.total - axis.first - axis.count;
  return axis;
}

// Returns the part `shown` in coordinates of the stored picture.
WantedPart as_stored(WantedPart shown, const StoredPicture& stored) {
  if (stored.orientation >= 5) std::swap(shown.rows, shown.columns);
  PixelCoordinate origin = stored_pixel(stored.orientation, stored.height, stored.width, 0, 0);
  if (origin.y != 0) shown.rows = mirrored(shown.rows, stored.height);
  if (origin.x != 0) shown.columns = mirrored(shown.columns, stored.width);
  return shown;
}

// Returns the largest shrink of a JPEG that leaves at least twice the size of the result.
int shrink_of(const WantedPart& wanted) {
  int shrink = 1;
  if (!wanted.may_reduce) return shrink;
  auto large_enough = [&](const ResampleAxis& axis) {
    return axis.size >= 4.0 * shrink * axis.total;
  };
  while (shrink < 8 && large_enough(wanted.rows) && large_enough(wanted.columns)) shrink *= 2;
  return shrink;
}

// Returns the luma of a colour, as Pillow and OpenCV do; v for r = g = b = v.
uint8_t brightness(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

}  // namespace

WantedPart middle_of(int shown_height, int shown_width, int height, int width, int resize) {
  // Half of the pixels cut off are before the middle; halves are rounded to even.
  const auto axis = [](int side, int total, int size) {
    const int off = total - size;
    return ResampleAxis{0, double(side), total, (off + off / 2 % 2) / 2, size};
  };
  const int rows = resize > 0 ? resize : height, columns = resize > 0 ? resize : width;
  if (int64_t{shown_height} * columns <= int64_t{shown_width} * rows) {
    const int total = static_cast<int>(int64_t{rows} * shown_width / shown_height);
    return {axis(shown_height, rows, height), axis(shown_width, std::max(total, columns), width),
            false};
  }
  const int total = static_cast<int>(int64_t{columns} * shown_height / shown_width);
  return {axis(shown_height, std::max(total, rows), height), axis(shown_width, columns, width),
          false};
}

void PictureNeeds::cover(const PictureNeeds& other) {
  file_bytes = std::max(file_bytes, other.file_bytes);
  decode_bytes = std::max(decode_bytes, other.decode_bytes);
  scratch_bytes = std::max(scratch_bytes, other.scratch_bytes);
  side = std::max(side, other.side);
}

void PictureReader::reserve(const PictureNeeds& needs, int size, int channels) {
  bytes_.reserve(static_cast<size_t>(needs.file_bytes));
  rows_.reserve(static_cast<size_t>(needs.scratch_bytes));
  if (channels == 1) gray_.resize(static_cast<size_t>(needs.side));
  resampler_.reserve(needs.side, channels, size, size);
  rotated_.reserve(static_cast<size_t>(size) * static_cast<size_t>(size) *
                   static_cast<size_t>(channels));
}

size_t PictureReader::bytes() const {
  return bytes_.capacity() + rows_.capacity() + gray_.capacity() + resampler_.bytes() +
         rotated_.capacity();
}

void PictureReader::read(const std::string& path, const StoredPicture& stored,
                         const WantedPart& shown, int channels, uint8_t* out,
                         const PictureLimits& limits) {
  read_regular_file(path, limits.file_bytes, bytes_);
  decode(path, stored, shown, channels, out, limits);
}

void PictureReader::read_middle(const std::string& path, const ImageShape& shape, int resize,
                                uint8_t* out, const PictureLimits& limits) {
  read_regular_file(path, limits.file_bytes, bytes_);
  const Picture picture = probe_picture(bytes_, path, limits);
  decode(
      path, {picture.width, picture.height, picture.orientation},
      middle_of(picture.shown_height(), picture.shown_width(), shape.height, shape.width, resize),
      shape.channels, out, limits);
}

void PictureReader::decode(const std::string& path, const StoredPicture& stored,
                           const WantedPart& shown, int channels, uint8_t* out,
                           const PictureLimits& limits) {
  channels_ = channels, stored_ = stored, path_ = &path;
  wanted_ = as_stored(shown, stored);
  const ResampleAxis rows = wanted_.rows, columns = wanted_.columns;
  const bool rotated = stored.orientation != 1;
  if (rotated)
    rotated_.resize(static_cast<size_t>(rows.count) * static_cast<size_t>(columns.count) *
                    static_cast<size_t>(channels));
  target_ = rotated ? rotated_.data() : out;
  shrink_ = shrink_of(wanted_);
  decode_picture(bytes_, path, shrink_, *this, rows_, limits);
  resampler_.finish();
  if (rotated) turn(stored.orientation, rows.count, columns.count, out);
}

void PictureReader::begin(int width, int height) {
  y_ = 0;
  // Only a JPEG may be smaller.
  const int shrink = width == stored_.width && height == stored_.height ? 1 : shrink_;
  const auto left = [&](int side) { return (side + shrink - 1) / shrink; };
  if (width != left(stored_.width) || height != left(stored_.height))
    throw DataError(*path_ + ": the picture has changed since the data set was opened");
  for (ResampleAxis* axis : {&wanted_.rows, &wanted_.columns})
    axis->begin /= shrink, axis->size /= shrink;
  width_ = width;
  resampler_.start(wanted_.rows, wanted_.columns, channels_, target_);
}

bool PictureReader::row(const uint8_t* rgb) {
  if (channels_ == 1) {
    if (gray_.size() < static_cast<size_t>(width_)) gray_.resize(static_cast<size_t>(width_));
    for (int x = 0; x < width_; ++x) gray_[static_cast<size_t>(x)] = brightness(rgb + 3 * x);
  }
  resampler_.row(y_, channels_ == 1 ? gray_.data() : rgb);
  return y_++ < resampler_.last_row();
}

void PictureReader::turn(int orientation, int height, int width, uint8_t* out) const {
  const int rows = orientation >= 5 ? width : height, columns = orientation >= 5 ? height : width;
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < columns; ++x, out += channels_) {
      const PixelCoordinate from = stored_pixel(orientation, height, width, y, x);
      std::memcpy(out, rotated_.data() + (int64_t{from.y} * width + from.x) * channels_,
                  static_cast<size_t>(channels_));
    }
  }
}

}  // namespace tessera
