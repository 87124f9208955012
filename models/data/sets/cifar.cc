#include "tessera/models/data/sets/cifar.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tessera/models/data/formats/data_file.h"
#include "tessera/models/data/sets/subset.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr int64_t kSide = 32, kPlane = kSide * kSide, kPixels = 3 * kPlane;

void check_size(const DataFile& file, const CifarFormat& format) {
  int64_t record = format.label_bytes + kPixels;
  int64_t needed = record * format.records_per_file, size = file.disk_bytes();
  if (size == needed) return;
  file.fail(std::min(size, needed),
            fmt::format("{} records of {} bytes take {} bytes, but the file has {} ({} records and "
                        "{} bytes); it is {}, get it again",
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
                  fmt::format("label {} of record {} is not in [0, {}); the file is damaged or of "
                              "another data set",
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
