// The JPEG decoder, by libjpeg-turbo. libjpeg reports errors by longjmp: only guard() catches
// jumps, and the code that it runs must not have objects with a destructor.
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>
#include <jpeglib.h>
// after jpeglib.h, as its error numbers depend on the settings there
#include <jerror.h>

#include "tessera/models/data/images/picture_formats.h"

namespace tessera::picture {

namespace {

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

class Jpeg {
 public:
  Jpeg(std::span<const uint8_t> bytes, const std::string& name, const PictureLimits& limits)
      : name_(name) {
    info.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr common) { leave(common); };
    errors_.emit_message = [](j_common_ptr common, int level) {
      if (level < 0 && is_damage(common->err->msg_code)) leave(common);
    };
    errors_.output_message = [](j_common_ptr) {};
    info.client_data = this;
    max_scans_ = limits.scans;
    guard([&] { jpeg_create_decompress(&info); });  // frees its memory if it fails
    progress_.progress_monitor = [](j_common_ptr common) {
      auto* jpeg = static_cast<Jpeg*>(common->client_data);
      if (jpeg->info.input_scan_number <= jpeg->max_scans_) return;
      std::snprintf(jpeg->text_, sizeof jpeg->text_, "it has more than %d scans", jpeg->max_scans_);
      std::longjmp(jpeg->jump_, 1);
    };
    info.progress = &progress_;
    info.mem->max_memory_to_use =
        static_cast<long>(std::min<int64_t>(limits.pixels, int64_t{1} << 40) * 8 + (16 << 20));
    set_source(bytes);
  }
  ~Jpeg() { jpeg_destroy_decompress(&info); }
  Jpeg(const Jpeg&) = delete;
  Jpeg& operator=(const Jpeg&) = delete;

  template <class F>
  void guard(F run) {
    if (setjmp(jump_) != 0) fail(name_, text_);
    run();
  }

  jpeg_decompress_struct info{};

 private:
  static void leave(j_common_ptr common) {
    auto* jpeg = static_cast<Jpeg*>(common->client_data);
    (*common->err->format_message)(common, jpeg->text_);
    std::longjmp(jpeg->jump_, 1);
  }

  static void out_of_bytes(j_decompress_ptr info) {
    auto* jpeg = static_cast<Jpeg*>(info->client_data);
    std::snprintf(jpeg->text_, sizeof jpeg->text_, "the file is truncated");
    std::longjmp(jpeg->jump_, 1);
  }

  void set_source(std::span<const uint8_t> bytes) {
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

  const std::string& name_;
  std::jmp_buf jump_;
  char text_[JMSG_LENGTH_MAX] = {};
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

void read_header(Jpeg& jpeg, const std::string& name, const PictureLimits& limits) {
  jpeg.guard([&] {
    jpeg_save_markers(&jpeg.info, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&jpeg.info, TRUE);
  });
  check_size(name, jpeg.info.image_width, jpeg.info.image_height, limits);
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

}  // namespace

Picture probe_jpeg(std::span<const uint8_t> bytes, const std::string& name,
                   const PictureLimits& limits) {
  Jpeg jpeg(bytes, name, limits);
  read_header(jpeg, name, limits);
  Picture picture;
  picture.width = static_cast<int>(jpeg.info.image_width);
  picture.height = static_cast<int>(jpeg.info.image_height);
  picture.orientation = orientation_of(jpeg.info);
  picture.gray = jpeg.info.jpeg_color_space == JCS_GRAYSCALE;
  picture.decode_bytes = decode_bytes(jpeg.info);
  picture.scratch_bytes = static_cast<size_t>(picture.width) * 8;
  return picture;
}

void decode_jpeg(std::span<const uint8_t> bytes, const std::string& name, int shrink, RowSink& sink,
                 std::vector<uint8_t>& scratch, const PictureLimits& limits) {
  Jpeg jpeg(bytes, name, limits);
  read_header(jpeg, name, limits);
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
  if (scratch.size() < 2 * row) scratch.resize(2 * row);
  uint8_t *decoded = scratch.data(), *rgb = cmyk ? decoded + row : decoded;
  sink.begin(width, height);
  for (int y = 0; y < height; ++y) {
    jpeg.guard([&] { jpeg_read_scanlines(&info, &decoded, 1); });
    if (cmyk) cmyk_to_rgb(decoded, width, rgb);
    if (!sink.row(rgb)) return;
  }
  // Data after the last row are ignored, even a missing end marker.
}

}  // namespace tessera::picture
