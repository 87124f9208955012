#include "tessera/models/data/images/picture.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "tessera/models/data/images/picture_reader.h"
#include "tessera/models/data/images/resample.h"
#include "tessera/tests/golden/golden_file.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

using tessera::testing::Bytes;
using tessera::testing::expect_error;
using tessera::testing::load_picture;
using tessera::testing::Pixels;
using tessera::testing::TempFolder;

const golden::File& file() {
  static golden::File file(TESSERA_SOURCE_DIR "/tests/golden/pictures.h5");
  return file;
}

Bytes bytes_of(const golden::Array& array) { return {array.values.begin(), array.values.end()}; }

// Loads the bytes through a file.
Pixels decode(const Bytes& bytes, const PictureLimits& limits = {}) {
  TempFolder folder;
  return load_picture(folder.write("picture", bytes), limits);
}

void expect_pixels(const std::string& name) {
  SCOPED_TRACE(name);
  golden::Array expected = file().read("decode/" + name + "/pixels");
  Pixels pixels = decode(bytes_of(file().read("decode/" + name + "/file")));
  ASSERT_EQ(pixels.height, expected.shape[0]);
  ASSERT_EQ(pixels.width, expected.shape[1]);
  EXPECT_EQ(pixels.rgb, bytes_of(expected));
}

TEST(PictureTest, EveryKindHasPillowsPixels) {
  auto names = file().members("decode");
  EXPECT_GE(names.size(), 34u);
  for (const std::string& name : names) expect_pixels(name);
}

TEST(PictureTest, EveryOrientationIsFollowed) {
  Pixels upright = decode(bytes_of(file().read("decode/png_turned1/file")));
  for (int orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    std::string name = "decode/png_turned" + std::to_string(orientation);
    Bytes bytes = bytes_of(file().read(name + "/file"));
    EXPECT_EQ(probe_picture(bytes, "it").orientation, orientation);
    Pixels turned = decode(bytes);
    EXPECT_EQ(turned.width, orientation >= 5 ? upright.height : upright.width);
    PixelCoordinate corner = stored_pixel(orientation, upright.height, upright.width, 0, 0);
    const uint8_t* stored = upright.rgb.data() + (corner.y * upright.width + corner.x) * 3;
    EXPECT_TRUE(std::equal(stored, stored + 3, turned.rgb.begin()));
  }
}

TEST(PictureTest, ATruncatedFileIsDamagedWhereverItEnds) {
  for (const char* name :
       {"jpeg_rgb", "jpeg_progressive", "jpeg_cmyk", "png_rgb", "png_interlaced", "png_palette"}) {
    SCOPED_TRACE(name);
    Bytes whole = bytes_of(file().read("decode/" + std::string(name) + "/file"));
    bool png = name[0] == 'p';
    // No pixel depends on the last bytes, which are the end mark (and a checksum).
    for (size_t size = 0; size + (png ? 20 : 8) < whole.size(); size += 7) {
      Bytes part(whole.begin(), whole.begin() + static_cast<int64_t>(size));
      EXPECT_THROW(decode(part), DataError) << size << " of " << whole.size() << " bytes";
    }
  }
}

TEST(PictureTest, DamagedDataAreAnError) {
  Bytes jpeg = bytes_of(file().read("decode/jpeg_rgb/file"));
  Bytes broken = jpeg;  // an end mark in the middle of the data
  broken[broken.size() - 200] = 0xff, broken[broken.size() - 199] = 0xd9;
  expect_error<DataError>([&] { decode(broken); }, {"picture: ", "premature end"});
  Bytes png = bytes_of(file().read("decode/png_rgb/file"));
  png[png.size() / 2] ^= 1;
  expect_error<DataError>([&] { decode(png); }, {"picture: "});
  expect_error<DataError>([&] { decode({}); }, {"is empty"});
  expect_error<DataError>(
      [&] {
        decode({'G', 'I', 'F', '8', '9', 'a'});
      },
      {"no JPEG, PNG or WebP"});
}

Bytes from_hex(std::string_view text) {
  Bytes bytes;
  for (size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}

// 6 x 4 pixels, red 40 x + y, green 255 - 60 y, blue 9 x y modulo 256, without loss, orientation 6;
// 24 x 16 pixels with loss and alpha. Both written by Pillow 13.
const Bytes kWebp = from_hex(
    "524946466600000057454250565038580a000000080000000500000300005650384c250000002f05c00000b93244"
    "f43f7611fdef7f4041db364cf9e32aafb783615026212640a049e0fc0100455849461a0000004d4d002a00000008"
    "000101120003000000010006000000000000");
const Bytes kLossyWebp = from_hex(
    "52494646be00000057454250565038580a000000100000001700000f0000414c50483500000001b93244f43fa026"
    "9224e5fd1b5b1fcfe4e1ee79a38f23266002a44117ecef030e086151a0134210407882028dd83e41263890882300"
    "56503820620000009004009d012a180010003eb54aa149a72423a1300800e016896c009d32847037907e24c60001"
    "81452f4e66d4b000fef10e03b4a7660098a6fff38f999b36f6e46abfba8d83ea428cd593390d4c8fc87c972a756d"
    "4b020b981824f21b33f500000000");

bool has_libwebp() {
  return dlopen("libwebp.so.7", RTLD_LAZY) != nullptr ||
         dlopen("libwebp.so.6", RTLD_LAZY) != nullptr;
}

TEST(PictureTest, WebpHasPillowsPixels) {
  if (!has_libwebp()) GTEST_SKIP() << "no libwebp here";
  EXPECT_EQ(probe_picture(kWebp, "it").orientation, 6);
  const Pixels turned = decode(kWebp);  // stored pixel (y, x) is shown at (x, 3 - y)
  ASSERT_EQ(turned.height, 6);
  ASSERT_EQ(turned.width, 4);
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 6; ++x) {
      const auto* rgb = turned.rgb.data() + (x * 4 + 3 - y) * 3;
      EXPECT_EQ(rgb[0], x * 40 + y);
      EXPECT_EQ(rgb[1], 255 - y * 60);
      EXPECT_EQ(rgb[2], x * y * 9 % 256);
    }
  uint64_t sum = 0, place = 0;
  for (const uint8_t value : decode(kLossyWebp).rgb) sum += ++place * value;
  EXPECT_EQ(sum, 103276601u);  // that of the pixels that Pillow shows
}

TEST(PictureTest, DamagedWebpIsRefused) {
  if (!has_libwebp()) {
    expect_error<DataError>([] { require_decoder("a/b.WebP"); }, {"a/b.WebP: ", "libwebp7"});
    GTEST_SKIP() << "no libwebp here";
  }
  for (const Bytes& whole : {kWebp, kLossyWebp})
    for (const size_t size : {size_t{12}, size_t{20}, whole.size() / 2})
      expect_error<DataError>(
          [&] {
            decode({whole.begin(), whole.begin() + int64_t(size)});
          },
          {"picture: libwebp cannot"});
  PictureLimits limits;
  limits.pixels = 23;
  expect_error<DataError>([&] { decode(kWebp, limits); }, {"6x4 pixels, but at most 23"});
}

TEST(PictureTest, SizesAreBounded) {
  PictureLimits limits;
  limits.pixels = 21 * 34 - 1;
  for (const char* name : {"jpeg_rgb", "png_rgb"}) {
    Bytes bytes = bytes_of(file().read("decode/" + std::string(name) + "/file"));
    expect_error<DataError>([&] { decode(bytes, limits); }, {"34x21", "713"});
    expect_error<DataError>([&] { probe_picture(bytes, "it", limits); }, {"it: ", "34x21"});
  }
  // A header for 61680 x 61680 pixels, followed by little data.
  Bytes jpeg = bytes_of(file().read("decode/jpeg_rgb/file"));
  for (size_t i = 0; i + 9 < jpeg.size(); ++i) {
    if (jpeg[i] != 0xff || jpeg[i + 1] != 0xc0) continue;
    for (size_t k = 5; k < 9; ++k) jpeg[i + k] = 0xf0;
    break;
  }
  expect_error<DataError>([&] { decode(jpeg); }, {"61680x61680", "100000000"});
  limits = {};
  limits.scans = 3;
  Bytes progressive = bytes_of(file().read("decode/jpeg_progressive/file"));
  expect_error<DataError>([&] { decode(progressive, limits); }, {"more than 3 scans"});
  // A chunk with a length of a gigabyte is refused before libpng allocates it.
  Bytes png = bytes_of(file().read("decode/png_turned3/file"));
  auto exif = std::search(png.begin(), png.end(), std::begin("eXIf"), std::end("eXIf") - 1);
  ASSERT_NE(exif, png.end());
  *(exif - 4) = 0x40;
  expect_error<DataError>([&] { probe_picture(png, "it"); }, {"it: the file is truncated"});
  limits = {};
  limits.file_bytes = 100;
  expect_error<DataError>([&] { decode(jpeg, limits); }, {"at most 100 are"});
}

TEST(PictureTest, OnlyPlainFiles) {
  TempFolder folder;
  std::string real = folder.write("a.png", bytes_of(file().read("decode/png_rgb/file")));
  std::filesystem::create_symlink(real, folder.path("link.png"));
  expect_error<DataError>([&] { load_picture(folder.path("link.png")); }, {"link.png"});
  expect_error<DataError>([&] { load_picture(folder.path()); }, {"not a regular file"});
  expect_error<DataError>([&] { load_picture("/dev/zero"); }, {"not a regular file"});
  expect_error<DataError>([&] { load_picture(folder.path("none")); }, {"cannot be opened"});
}

TEST(PictureTest, ASmallerJpegIsTheSamePicture) {
  class Mean : public RowSink {
   public:
    void begin(int width, int height) override { width_ = width, height_ = height; }
    bool row(const uint8_t* rgb) override {
      for (int i = 0; i < 3 * width_; ++i) sum_ += rgb[i];
      return ++rows_ > 0;
    }
    int width_ = 0, height_ = 0, rows_ = 0;
    double sum_ = 0;
  };
  Bytes bytes = bytes_of(file().read("decode/jpeg_444/file"));
  std::vector<uint8_t> scratch;
  double whole = 0;
  for (int shrink : {1, 2, 4}) {
    Mean mean;
    decode_picture(bytes, "it", shrink, mean, scratch);
    EXPECT_EQ(mean.width_, (34 + shrink - 1) / shrink);
    EXPECT_EQ(mean.rows_, (21 + shrink - 1) / shrink);
    double level = mean.sum_ / (3 * mean.width_ * mean.rows_);
    if (shrink == 1) whole = level;
    EXPECT_NEAR(level, whole, 8);  // the last row and column weigh more
  }
}

TEST(PictureTest, ResizesAsPillowDoes) {
  auto names = file().members("resize");
  EXPECT_EQ(names.size(), 14u);
  Resampler resampler;
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    golden::Array in = file().read("resize/" + name + "/in");
    golden::Array out = file().read("resize/" + name + "/out");
    auto part = file().read("resize/" + name + "/part").values;
    auto shape = [](const golden::Array& a) {
      return ImageShape{static_cast<int>(a.shape[0]), static_cast<int>(a.shape[1]),
                        static_cast<int>(a.shape[2])};
    };
    Box box{static_cast<int>(part[0]), static_cast<int>(part[1]), static_cast<int>(part[2]),
            static_cast<int>(part[3])};
    Bytes from = bytes_of(in), result(out.values.size());
    resize_image(resampler, shape(in), box, from.data(), shape(out), result.data());
    EXPECT_EQ(result, bytes_of(out));
  }
}

// Pictures with many kinds of odd headers; the golden file has only Pillow's results for them.
TEST(PictureTest, OddJpegs) {
  const char* root = std::getenv("TESSERA_TEST_DATA");
  std::string folder = root == nullptr ? "" : std::string(root) + "/images/odd_jpegs/";
  if (!std::filesystem::exists(folder + "hopper.jpg"))
    GTEST_SKIP() << "TESSERA_TEST_DATA names no folder with images/odd_jpegs";
  auto names = file().texts("odd/names");
  auto figures = file().read("odd/height_width_crc32").values;
  EXPECT_GE(names.size(), 18u);
  for (size_t i = 0; i < names.size(); ++i) {
    SCOPED_TRACE(names[i]);
    const double* expected = figures.data() + 3 * i;
    if (expected[0] == 0) {
      expect_error<DataError>([&] { load_picture(folder + names[i]); }, {names[i], "truncated"});
      continue;
    }
    Pixels pixels = load_picture(folder + names[i]);
    EXPECT_EQ(pixels.height, expected[0]);
    EXPECT_EQ(pixels.width, expected[1]);
    EXPECT_EQ(crc32_z(0, pixels.rgb.data(), pixels.rgb.size()), static_cast<uint32_t>(expected[2]));
  }
}

// torchvision's CenterCrop rounds halves to even.
TEST(PictureTest, TheMiddleBeginsWhereTorchvisionsDoes) {
  for (const auto& [side, first] :
       {std::pair{32, 0}, {33, 0}, {34, 1}, {35, 2}, {37, 2}, {39, 4}}) {
    EXPECT_EQ(middle_of(32, side, 32, 32).columns.first, first) << side;
    EXPECT_EQ(middle_of(side, 32, 32, 32).rows.first, first) << side;
  }
  // Resize(256), CenterCrop(224) of 500 x 375 pixels: 341 x 256, of which 58 are left of the
  // middle.
  const WantedPart part = middle_of(375, 500, 224, 224, 256);
  EXPECT_EQ(part.rows, (ResampleAxis{0, 375, 256, 16, 224}));
  EXPECT_EQ(part.columns, (ResampleAxis{0, 500, 341, 58, 224}));
}

}  // namespace
}  // namespace tessera
