#include "tessera/models/data/dataset.h"

#include <cstring>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

std::string shape_text(const ImageShape& shape) {
  return fmt::format("[{}x{}x{}]", shape.height, shape.width, shape.channels);
}

}  // namespace

Dataset::Dataset(DatasetInfo info) : info_(std::move(info)) {
  auto fail = [&](const std::string& what) { throw Error(info_.name + ": " + what); };
  const ImageShape& shape = info_.shape;
  if (shape.height < 1 || shape.width < 1 || shape.channels < 1)
    fail("images must have at least one pixel and one channel, but are " + shape_text(shape));
  if (info_.count < 1) fail(fmt::format("count must be at least 1, but is {}", info_.count));
  if (info_.classes < 1) fail(fmt::format("classes must be at least 1, but is {}", info_.classes));
  auto classes = static_cast<size_t>(info_.classes);
  if (!info_.class_names.empty() && info_.class_names.size() != classes) {
    fail(
        fmt::format("there are {} class names, but {} classes", info_.class_names.size(), classes));
  }
  Normalization& norm = normalization_ = info_.normalization;
  auto channels = static_cast<size_t>(shape.channels);
  if (norm.mean.empty() && norm.std.empty()) {
    norm.mean.assign(channels, 0.f);
    norm.std.assign(channels, 1.f);
  }
  if (norm.mean.size() != channels || norm.std.size() != channels) {
    fail(fmt::format("normalization has {} means and {} stds, but the images have {} channels",
                     norm.mean.size(), norm.std.size(), channels));
  }
}

void Dataset::check_index(int64_t index) const {
  if (index >= 0 && index < info_.count) return;
  throw Error(fmt::format("{}: image {} does not exist; the data set has {} images", info_.name,
                          index, info_.count));
}

void Dataset::read(int64_t index, uint8_t* image) const {
  check_index(index);
  do_read(index, image);
}

int64_t Dataset::label(int64_t index) const {
  check_index(index);
  return do_label(index);
}

std::string Dataset::file(int64_t index) const {
  check_index(index);
  return do_file(index);
}

ImageShape Dataset::own_shape(int64_t index) const {
  check_index(index);
  return info_.shape;
}

void Dataset::read_part(int64_t index, const Box& part, const ImageShape& to,
                        uint8_t* image) const {
  ImageShape own = own_shape(index);
  bool inside = part.y >= 0 && part.x >= 0 && part.height > 0 && part.width > 0 &&
                part.height <= own.height - part.y && part.width <= own.width - part.x;
  if (!inside || to.height < 1 || to.width < 1 || to.channels != info_.shape.channels) {
    throw Error(fmt::format("{}: part [{}x{}] at ({}, {}) of image {} {} cannot be read as {}",
                            info_.name, part.height, part.width, part.y, part.x, index,
                            shape_text(own), shape_text(to)));
  }
  do_read_part(index, part, to, image);
}

void Dataset::do_read_part(int64_t, const Box&, const ImageShape&, uint8_t*) const {
  throw InternalError(info_.name + ": does not implement do_read_part()");
}

std::string Dataset::describe() const {
  size_t held = 0;
  for (const MemoryItem& buffer : host_buffers()) held += buffer.bytes;
  std::string where =
      held == 0 ? "read on demand"
                : fmt::format("{:.1f} MiB in memory", static_cast<double>(held) / (1 << 20));
  if (info_.skipped > 0)
    where +=
        fmt::format("; {} skipped: `trainer data inspect` names them",
                    info_.skipped == 1 ? "1 file or folder was"
                                       : fmt::format("{} files or folders were", info_.skipped));
  return fmt::format("{}: {} images {}, {} classes, {}", info_.name, info_.count,
                     shape_text(info_.shape), info_.classes, where);
}

std::vector<int32_t> labels_of(const Dataset& data) {
  std::vector<int32_t> labels(static_cast<size_t>(data.count()));
  for (int64_t i = 0; i < data.count(); ++i)
    labels[static_cast<size_t>(i)] = static_cast<int32_t>(data.label(i));
  return labels;
}

std::vector<int64_t> images_of_classes(const Dataset& data) {
  std::vector<int64_t> images(static_cast<size_t>(data.classes()));
  for (int64_t i = 0; i < data.count(); ++i) ++images[static_cast<size_t>(data.label(i))];
  return images;
}

MemoryDataset::MemoryDataset(DatasetInfo info, std::vector<uint8_t> images,
                             std::vector<int32_t> labels, std::vector<std::string> notes)
    : Dataset(std::move(info)),
      images_(std::move(images)),
      labels_(std::move(labels)),
      notes_(std::move(notes)) {
  auto expected = static_cast<size_t>(count() * shape().bytes());
  if (images_.size() != expected || labels_.size() != static_cast<size_t>(count())) {
    throw Error(fmt::format(
        "{}: {} images {} need {} bytes and {} labels, but have {} bytes and {} labels", name(),
        count(), shape_text(shape()), expected, count(), images_.size(), labels_.size()));
  }
  for (size_t i = 0; i < labels_.size(); ++i) {
    if (labels_[i] >= 0 && labels_[i] < classes()) continue;
    throw Error(fmt::format("{}: label {} of image {} is not in [0, {})", name(), labels_[i], i,
                            classes()));
  }
}

std::vector<MemoryItem> MemoryDataset::host_buffers() const {
  return {{name() + " images", images_.capacity()},
          {name() + " labels", labels_.capacity() * sizeof(int32_t)}};
}

void MemoryDataset::do_read(int64_t index, uint8_t* image) const {
  auto bytes = static_cast<size_t>(shape().bytes());
  std::memcpy(image, images_.data() + static_cast<size_t>(index) * bytes, bytes);
}

}  // namespace tessera
