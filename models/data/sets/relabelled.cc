#include "tessera/models/data/sets/relabelled.h"

#include <utility>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

class Relabelled : public Dataset {
 public:
  Relabelled(std::shared_ptr<const Dataset> data, DatasetInfo info, std::vector<int64_t> labels)
      : Dataset(std::move(info)), data_(std::move(data)), labels_(std::move(labels)) {}

  std::vector<HostBuffer> host_buffers() const override { return data_->host_buffers(); }
  std::vector<std::string> notes() const override { return data_->notes(); }
  bool has_own_sizes() const override { return data_->has_own_sizes(); }
  ImageShape own_shape(int64_t index) const override { return data_->own_shape(index); }

 private:
  void do_read(int64_t index, uint8_t* image) const override { data_->read(index, image); }
  int64_t do_label(int64_t index) const override {
    return labels_[static_cast<size_t>(data_->label(index))];
  }
  void do_read_part(int64_t index, const Box& part, const ImageShape& to,
                    uint8_t* image) const override {
    data_->read_part(index, part, to, image);
  }

  const std::shared_ptr<const Dataset> data_;
  const std::vector<int64_t> labels_;
};

}  // namespace

std::shared_ptr<const Dataset> relabelled(std::shared_ptr<const Dataset> data,
                                          std::vector<int64_t> labels, int classes,
                                          std::vector<std::string> names) {
  for (int64_t i = 0; i < data->count(); ++i) {
    const auto label = static_cast<size_t>(data->label(i));
    if (label >= labels.size() || labels[label] < 0 || labels[label] >= classes)
      throw Error(
          fmt::format("{}: nothing is told for label {} of image {}", data->name(), label, i));
  }
  DatasetInfo info = data->info();
  info.classes = classes;
  info.class_names = std::move(names);
  return std::make_shared<Relabelled>(std::move(data), std::move(info), std::move(labels));
}

}  // namespace tessera
