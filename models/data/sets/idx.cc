#include "tessera/models/data/sets/idx.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tessera/models/data/formats/data_file.h"
#include "tessera/models/data/sets/subset.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr uint8_t kUint8 = 0x08;

void check_magic(const DataFile& file, const std::array<uint8_t, 4>& magic, int dims,
                 const char* kind) {
  if (magic == std::array<uint8_t, 4>{0, 0, kUint8, static_cast<uint8_t>(dims)}) return;
  std::string hint = "it is not an IDX file of bytes";
  if (magic[0] == 0x1f && magic[1] == 0x8b) {
    hint = "it is gzip-compressed: let its name end in .gz";
  } else if (magic[0] == 0 && magic[1] == 0 && magic[2] == kUint8) {
    hint = fmt::format("it has {} dimensions: {}", magic[3],
                       magic[3] == 1 ? "labels, not images" : "not what its name says");
    if (magic[3] == 3) hint = "it has 3 dimensions: images, not labels";
  }
  file.fail(0, fmt::format("{} must begin with 00 00 08 {:02x}, found {:02x} {:02x} {:02x} {:02x}; "
                           "{}",
                           kind, dims, magic[0], magic[1], magic[2], magic[3], hint));
}

// Reads the header of a file with the given number of dimensions (at most 3) and returns them, once
// they are known to fit the file.
std::array<int64_t, 3> read_header(DataFile& file, int dims, const char* kind) {
  constexpr int64_t kMaxPixels = 1 << 14;  // a side
  std::array<uint8_t, 4> bytes;
  file.read(bytes.data(), bytes.size(), "the header");
  check_magic(file, bytes, dims, kind);
  std::array<int64_t, 3> sizes = {1, 1, 1};
  for (int d = 0; d < dims; ++d) {
    int64_t at = file.offset();
    file.read(bytes.data(), bytes.size(), "the header");
    int64_t size = int64_t{bytes[0]} << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
    if (size < 1 || (d > 0 && size > kMaxPixels)) {
      file.fail(at,
                fmt::format("dimension {} is {}, which cannot be; the header is damaged", d, size));
    }
    sizes[static_cast<size_t>(d)] = size;
  }
  int64_t header = file.offset();
  int64_t needed = header + sizes[0] * sizes[1] * sizes[2];  // < 2^32 * 2^28
  bool fits = file.compressed() ? needed <= file.most_bytes() : needed == file.disk_bytes();
  if (!fits) {
    int64_t end = file.compressed() ? header : std::min(file.disk_bytes(), needed);
    file.fail(
        end,
        fmt::format("{} [{}x{}x{}] take {} bytes with the header, but the file has {}{}; "
                    "it is {}, get it again",
                    kind, sizes[0], sizes[1], sizes[2], needed, file.disk_bytes(),
                    file.compressed() ? " compressed ones, too few for that" : "",
                    needed > file.disk_bytes() ? "truncated or its header damaged" : "oversized"));
  }
  return sizes;
}

// The first `count` of `all`.
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

}  // namespace tessera
