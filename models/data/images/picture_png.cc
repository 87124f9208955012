// The PNG decoder, by libpng, which reports errors by longjmp as libjpeg does (picture_jpeg.cc).
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>
#include <png.h>

#include "tessera/models/data/images/picture_formats.h"

namespace tessera::picture {

namespace {

class Png {
 public:
  Png(std::span<const uint8_t> bytes, const std::string& name) : name_(name), left_(bytes) {
    png = png_create_read_struct(
        PNG_LIBPNG_VER_STRING, this,
        [](png_structp png, png_const_charp text) {
          auto* self = static_cast<Png*>(png_get_error_ptr(png));
          std::snprintf(self->text_, sizeof self->text_, "%s", text);
          std::longjmp(self->jump_, 1);
        },
        [](png_structp, png_const_charp) {});
    info = png == nullptr ? nullptr : png_create_info_struct(png);
    if (info == nullptr) {
      png_destroy_read_struct(&png, nullptr, nullptr);
      throw std::bad_alloc();
    }
  }
  ~Png() { png_destroy_read_struct(&png, &info, nullptr); }
  Png(const Png&) = delete;
  Png& operator=(const Png&) = delete;

  // Not in the constructor: if that threw, the destructor would not run.
  void read_header(const PictureLimits& limits) {
    check_chunks();
    guard([&] {
      png_set_read_fn(png, this, [](png_structp png, png_bytep to, size_t count) {
        auto* self = static_cast<Png*>(png_get_io_ptr(png));
        if (count > self->left_.size()) png_error(png, "the file is truncated");
        std::memcpy(to, self->left_.data(), count);
        self->left_ = self->left_.subspan(count);
      });
      auto side = static_cast<png_uint_32>(std::min<int64_t>(limits.pixels, 0x7fffffff));
      png_set_user_limits(png, side, side);
      png_set_chunk_malloc_max(png, 1 << 20);
      png_set_chunk_cache_max(png, 64);
      png_read_info(png, info);
    });
    width = png_get_image_width(png, info);
    height = png_get_image_height(png, info);
    check_size(name_, width, height, limits);
  }

  template <class F>
  void guard(F run) {
    if (setjmp(jump_) != 0) fail(name_, text_);
    run();
  }

  png_structp png = nullptr;
  png_infop info = nullptr;
  int64_t width = 0, height = 0;

 private:
  // Throws DataError if a chunk is longer than the file: libpng allocates some by their length.
  void check_chunks() const {
    constexpr size_t kSignature = 8, kAround = 12;  // length, name and checksum
    for (auto rest = left_.subspan(std::min(kSignature, left_.size())); rest.size() >= kAround;) {
      size_t length =
          size_t{rest[0]} << 24 | size_t{rest[1]} << 16 | size_t{rest[2]} << 8 | rest[3];
      if (std::memcmp(rest.data() + 4, "IEND", 4) == 0) return;
      if (length > rest.size() - kAround) fail(name_, "the file is truncated");
      rest = rest.subspan(kAround + length);
    }
  }

  const std::string& name_;
  std::span<const uint8_t> left_;
  std::jmp_buf jump_;
  char text_[200] = {};
};

bool interlaced(const Png& png) {
  return png_get_interlace_type(png.png, png.info) != PNG_INTERLACE_NONE;
}

void ask_for_rgb(Png& png) {
  png.guard([&] {
    int type = png_get_color_type(png.png, png.info);
    png_set_expand(png.png);  // palettes, and fewer than eight bits
    png_set_strip_16(png.png);
    if ((type & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png.png);
    png_set_strip_alpha(png.png);
    png_set_interlace_handling(png.png);
    png_read_update_info(png.png, png.info);
  });
}

}  // namespace

Picture probe_png(std::span<const uint8_t> bytes, const std::string& name,
                  const PictureLimits& limits) {
  Png png(bytes, name);
  png.read_header(limits);
  Picture picture;
  picture.width = static_cast<int>(png.width);
  picture.height = static_cast<int>(png.height);
  png_uint_32 exif_bytes = 0;
  png_bytep exif = nullptr;
  if (png_get_eXIf_1(png.png, png.info, &exif_bytes, &exif) != 0)
    picture.orientation = exif_orientation({exif, exif_bytes});
  picture.gray = (png_get_color_type(png.png, png.info) & PNG_COLOR_MASK_COLOR) == 0;
  picture.decode_bytes = (size_t{64} << 10) + static_cast<size_t>(png.width) * 16;
  picture.scratch_bytes = static_cast<size_t>(3 * png.width * (interlaced(png) ? png.height : 1));
  return picture;
}

void decode_png(std::span<const uint8_t> bytes, const std::string& name, RowSink& sink,
                std::vector<uint8_t>& scratch, const PictureLimits& limits) {
  Png png(bytes, name);
  png.read_header(limits);
  ask_for_rgb(png);
  auto row = static_cast<size_t>(png.width) * 3;
  bool whole = interlaced(png);
  if (png_get_rowbytes(png.png, png.info) != row) fail(name, "libpng cannot convert it to RGB");
  size_t needed = whole ? row * static_cast<size_t>(png.height) : row;
  if (scratch.size() < needed) scratch.resize(needed);
  for (int pass = 0; whole && pass < 7; ++pass) {
    for (int64_t y = 0; y < png.height; ++y) {
      png_bytep to = scratch.data() + static_cast<size_t>(y) * row;
      png.guard([&] { png_read_row(png.png, to, nullptr); });
    }
  }
  sink.begin(static_cast<int>(png.width), static_cast<int>(png.height));
  for (int64_t y = 0; y < png.height; ++y) {
    uint8_t* at = scratch.data() + (whole ? static_cast<size_t>(y) * row : 0);
    if (!whole) png.guard([&] { png_read_row(png.png, at, nullptr); });
    if (!sink.row(at)) return;
  }
}

}  // namespace tessera::picture
