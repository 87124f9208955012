// The picture decoders: JPEG by libjpeg-turbo, PNG by libpng, and WebP by libwebp, which is loaded
// when the first WebP picture is read: no build needs it.
// https://developers.google.com/speed/webp/docs/riff_container
#include "tessera/models/data/images/picture_formats.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <dlfcn.h>
#include <fmt/format.h>
#include <jpeglib.h>
#include <png.h>
#include <strings.h>
// after jpeglib.h, as its error numbers depend on the settings there
#include <jerror.h>

namespace tessera::picture {

namespace {

using Bytes = std::span<const uint8_t>;

// libjpeg and libpng report errors by longjmp: only guard() catches jumps, and the code that it
// runs must not have objects with a destructor.
class Jumper {
 public:
  explicit Jumper(const std::string& name) : name_(name) {}
  Jumper(const Jumper&) = delete;
  Jumper& operator=(const Jumper&) = delete;

  template <class F>
  void guard(F run) {
    if (setjmp(jump_) != 0) fail(name_, text_);
    run();
  }
  [[noreturn]] void leave(const char* text) {
    std::snprintf(text_, sizeof text_, "%s", text);
    std::longjmp(jump_, 1);
  }

 protected:
  const std::string& name_;

 private:
  std::jmp_buf jump_;
  char text_[JMSG_LENGTH_MAX] = {};
};

constexpr char kTruncated[] = "the file is truncated";

void grow(std::vector<uint8_t>& scratch, size_t bytes) {
  if (scratch.size() < bytes) scratch.resize(bytes);
}

// --- JPEG -----------------------------------------------------------------------------------

// Returns true for warnings after which libjpeg invents pixels.
bool is_damage(int code) {
  switch (code) {
    case JWRN_ARITH_BAD_CODE:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
      return true;
    default:
      return false;
  }
}

class Jpeg : public Jumper {
 public:
  Jpeg(Bytes bytes, const std::string& name, const PictureLimits& limits) : Jumper(name) {
    info.err = jpeg_std_error(&errors_);
    errors_.error_exit = leave_with_message;
    errors_.emit_message = [](j_common_ptr common, int level) {
      if (level < 0 && is_damage(common->err->msg_code)) leave_with_message(common);
    };
    errors_.output_message = [](j_common_ptr) {};
    info.client_data = this;
    max_scans_ = limits.scans;
    guard([&] { jpeg_create_decompress(&info); });  // frees its memory if it fails
    progress_.progress_monitor = [](j_common_ptr common) {
      auto* jpeg = static_cast<Jpeg*>(common->client_data);
      if (jpeg->info.input_scan_number <= jpeg->max_scans_) return;
      char text[JMSG_LENGTH_MAX];
      std::snprintf(text, sizeof text, "it has more than %d scans", jpeg->max_scans_);
      jpeg->leave(text);
    };
    info.progress = &progress_;
    info.mem->max_memory_to_use =
        static_cast<long>(std::min<int64_t>(limits.pixels, int64_t{1} << 40) * 8 + (16 << 20));
    set_source(bytes);
  }
  ~Jpeg() { jpeg_destroy_decompress(&info); }

  void read_header(const PictureLimits& limits) {
    guard([&] {
      jpeg_save_markers(&info, JPEG_APP0 + 1, 0xffff);
      jpeg_read_header(&info, TRUE);
    });
    check_size(name_, info.image_width, info.image_height, limits);
  }

  jpeg_decompress_struct info{};

 private:
  static void leave_with_message(j_common_ptr common) {
    char text[JMSG_LENGTH_MAX];
    (*common->err->format_message)(common, text);
    static_cast<Jpeg*>(common->client_data)->leave(text);
  }

  static void out_of_bytes(j_decompress_ptr info) {
    static_cast<Jpeg*>(info->client_data)->leave(kTruncated);
  }

  void set_source(Bytes bytes) {
    source_.next_input_byte = bytes.data();
    source_.bytes_in_buffer = bytes.size();
    source_.init_source = [](j_decompress_ptr) {};
    source_.term_source = [](j_decompress_ptr) {};
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.fill_input_buffer = [](j_decompress_ptr info) -> boolean {
      out_of_bytes(info);
      return TRUE;
    };
    source_.skip_input_data = [](j_decompress_ptr info, long count) {
      if (count <= 0) return;
      auto skip = static_cast<size_t>(count);
      if (skip > info->src->bytes_in_buffer) out_of_bytes(info);
      info->src->next_input_byte += skip;
      info->src->bytes_in_buffer -= skip;
    };
    info.src = &source_;
  }

  int max_scans_ = 0;
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
};

int orientation_of(const jpeg_decompress_struct& info) {
  constexpr char kExif[] = "Exif\0";  // and one more 0
  for (jpeg_saved_marker_ptr marker = info.marker_list; marker; marker = marker->next) {
    if (marker->data_length < 6 || std::memcmp(marker->data, kExif, 6) != 0) continue;
    return exif_orientation({marker->data + 6, marker->data_length - 6});
  }
  return 1;
}

// A decoder of several scans keeps all coefficients, two bytes each, until the last scan.
size_t decode_bytes(jpeg_decompress_struct& info) {
  size_t bytes = (size_t{96} << 10) + size_t{info.image_width} * 100;
  if (!jpeg_has_multiple_scans(&info)) return bytes;
  for (int c = 0; c < info.num_components; ++c) {
    const jpeg_component_info& component = info.comp_info[c];
    bytes += size_t{component.width_in_blocks + 1} * (component.height_in_blocks + 1) * 128;
  }
  return bytes;
}

// Adobe stores CMYK inverted: c is the part of red light that remains, k that of all light.
void cmyk_to_rgb(const uint8_t* cmyk, int width, uint8_t* rgb) {
  for (int x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
    int light = cmyk[3];
    for (int c = 0; c < 3; ++c) {
      int product = (255 - cmyk[c]) * light + 128;
      rgb[c] = static_cast<uint8_t>(light - ((product >> 8) + product) / 256);
    }
  }
}

Picture probe_jpeg(Bytes bytes, const std::string& name, const PictureLimits& limits) {
  Jpeg jpeg(bytes, name, limits);
  jpeg.read_header(limits);
  Picture picture;
  picture.width = static_cast<int>(jpeg.info.image_width);
  picture.height = static_cast<int>(jpeg.info.image_height);
  picture.orientation = orientation_of(jpeg.info);
  picture.gray = jpeg.info.jpeg_color_space == JCS_GRAYSCALE;
  picture.decode_bytes = decode_bytes(jpeg.info);
  picture.scratch_bytes = static_cast<size_t>(picture.width) * 8;
  return picture;
}

void decode_jpeg(Bytes bytes, const std::string& name, int shrink, RowSink& sink,
                 std::vector<uint8_t>& scratch, const PictureLimits& limits) {
  Jpeg jpeg(bytes, name, limits);
  jpeg.read_header(limits);
  jpeg_decompress_struct& info = jpeg.info;
  bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  if (info.jpeg_color_space == JCS_UNKNOWN)
    fail(name,
         fmt::format("the colour space of its {} components is unknown", info.num_components));
  jpeg.guard([&] {
    info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    info.dct_method = JDCT_ISLOW;
    info.scale_num = 1;
    info.scale_denom = static_cast<unsigned>(shrink);
    jpeg_start_decompress(&info);
  });
  int width = static_cast<int>(info.output_width), height = static_cast<int>(info.output_height);
  auto row = static_cast<size_t>(width) * 4;
  grow(scratch, 2 * row);
  uint8_t *decoded = scratch.data(), *rgb = cmyk ? decoded + row : decoded;
  sink.begin(width, height);
  for (int y = 0; y < height; ++y) {
    jpeg.guard([&] { jpeg_read_scanlines(&info, &decoded, 1); });
    if (cmyk) cmyk_to_rgb(decoded, width, rgb);
    if (!sink.row(rgb)) return;
  }
  // Data after the last row are ignored, even a missing end marker.
}

// --- PNG ------------------------------------------------------------------------------------

class Png : public Jumper {
 public:
  Png(Bytes bytes, const std::string& name) : Jumper(name), left_(bytes) {
    png = png_create_read_struct(
        PNG_LIBPNG_VER_STRING, this,
        [](png_structp png, png_const_charp text) {
          static_cast<Png*>(png_get_error_ptr(png))->leave(text);
        },
        [](png_structp, png_const_charp) {});
    info = png == nullptr ? nullptr : png_create_info_struct(png);
    if (info == nullptr) {
      png_destroy_read_struct(&png, nullptr, nullptr);
      throw std::bad_alloc();
    }
  }
  ~Png() { png_destroy_read_struct(&png, &info, nullptr); }

  // Not in the constructor: if that threw, the destructor would not run.
  void read_header(const PictureLimits& limits) {
    check_chunks();
    guard([&] {
      png_set_read_fn(png, this, [](png_structp png, png_bytep to, size_t count) {
        auto* self = static_cast<Png*>(png_get_io_ptr(png));
        if (count > self->left_.size()) png_error(png, kTruncated);
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

  bool interlaced() const { return png_get_interlace_type(png, info) != PNG_INTERLACE_NONE; }

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
      if (length > rest.size() - kAround) fail(name_, kTruncated);
      rest = rest.subspan(kAround + length);
    }
  }

  Bytes left_;
};

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

Picture probe_png(Bytes bytes, const std::string& name, const PictureLimits& limits) {
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
  picture.scratch_bytes = static_cast<size_t>(3 * png.width * (png.interlaced() ? png.height : 1));
  return picture;
}

void decode_png(Bytes bytes, const std::string& name, int, RowSink& sink,
                std::vector<uint8_t>& scratch, const PictureLimits& limits) {
  Png png(bytes, name);
  png.read_header(limits);
  ask_for_rgb(png);
  auto row = static_cast<size_t>(png.width) * 3;
  bool whole = png.interlaced();
  if (png_get_rowbytes(png.png, png.info) != row) fail(name, "libpng cannot convert it to RGB");
  size_t needed = whole ? row * static_cast<size_t>(png.height) : row;
  grow(scratch, needed);
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

// --- WebP -----------------------------------------------------------------------------------

// The functions of webp/decode.h that are used; unchanged since version 0.2 of 2012.
struct LibWebp {
  int (*info)(const uint8_t* data, size_t bytes, int* width, int* height) = nullptr;
  uint8_t* (*decode)(const uint8_t* data, size_t bytes, uint8_t* rgb, size_t size,
                     int stride) = nullptr;

  LibWebp() {
    void* library = dlopen("libwebp.so.7", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) library = dlopen("libwebp.so.6", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) return;
    info = reinterpret_cast<decltype(info)>(dlsym(library, "WebPGetInfo"));
    decode = reinterpret_cast<decltype(decode)>(dlsym(library, "WebPDecodeRGBInto"));
  }
  bool is_there() const { return info != nullptr && decode != nullptr; }
};

const LibWebp& libwebp(const std::string& name) {
  static const LibWebp library;
  if (!library.is_there())
    fail(name,
         "a WebP picture needs libwebp, which is not here; on Debian: apt-get install libwebp7");
  return library;
}

// Returns the orientation in the chunk "EXIF"; 1 without one.
int webp_orientation(Bytes bytes) {
  constexpr size_t kRiff = 12, kChunk = 8;
  for (size_t at = kRiff; at + kChunk <= bytes.size();) {
    const uint8_t* chunk = bytes.data() + at;
    const size_t size =
        size_t{chunk[4]} | size_t{chunk[5]} << 8 | size_t{chunk[6]} << 16 | size_t{chunk[7]} << 24;
    at += kChunk;
    if (size > bytes.size() - at) break;
    Bytes exif = bytes.subspan(at, size);
    if (std::memcmp(chunk, "EXIF", 4) == 0) {
      constexpr size_t kPrefix = 6;  // some programs write JPEG's
      if (size > kPrefix && std::memcmp(exif.data(), "Exif\0\0", kPrefix) == 0)
        exif = exif.subspan(kPrefix);
      return exif_orientation(exif);
    }
    at += size + size % 2;
  }
  return 1;
}

Picture probe_webp(Bytes bytes, const std::string& name, const PictureLimits& limits) {
  Picture picture;
  if (libwebp(name).info(bytes.data(), bytes.size(), &picture.width, &picture.height) == 0)
    fail(name, "libwebp cannot read its header");
  check_size(name, picture.width, picture.height, limits);
  picture.orientation = webp_orientation(bytes);
  const size_t pixels = static_cast<size_t>(picture.width) * static_cast<size_t>(picture.height);
  picture.decode_bytes = 4 * pixels, picture.scratch_bytes = 3 * pixels;
  return picture;
}

void decode_webp(Bytes bytes, const std::string& name, int, RowSink& sink,
                 std::vector<uint8_t>& scratch, const PictureLimits& limits) {
  const Picture picture = probe_webp(bytes, name, limits);
  const size_t row = static_cast<size_t>(picture.width) * 3;
  grow(scratch, picture.scratch_bytes);
  if (libwebp(name).decode(bytes.data(), bytes.size(), scratch.data(), picture.scratch_bytes,
                           static_cast<int>(row)) == nullptr)
    fail(name, "libwebp cannot decode it: the file is damaged, or an animation");
  sink.begin(picture.width, picture.height);
  for (int y = 0; y < picture.height; ++y)
    if (!sink.row(scratch.data() + static_cast<size_t>(y) * row)) return;
}

}  // namespace

const Decoder kJpeg{probe_jpeg, decode_jpeg};
const Decoder kPng{probe_png, decode_png};
const Decoder kWebp{probe_webp, decode_webp};

}  // namespace tessera::picture

namespace tessera {

void require_decoder(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (strcasecmp(ending.c_str(), ".webp") == 0) picture::libwebp(path);
}

}  // namespace tessera
