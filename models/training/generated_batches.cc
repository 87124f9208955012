#include "tessera/models/training/generated_batches.h"

#include "tessera/models/training/session.h"
#include "tessera/runtime/random.h"

namespace tessera {

GeneratedBatches::GeneratedBatches(const Config& config, const Session& session)
    : batch_(static_cast<size_t>(config.data.batch)),
      image_bytes_(static_cast<size_t>(session.image().bytes())),
      lr_(config.optimizer.lr / 10),
      region_("generated batches",
              static_cast<size_t>(planned_bytes(config.data.batch, session.image())),
              session.staging_memory()),
      labels_(reinterpret_cast<int32_t*>(region_.data()), kBatches * batch_),
      images_(reinterpret_cast<uint8_t*>(labels_.data() + labels_.size()),
              kBatches * batch_ * image_bytes_) {
  RandomSequence random(config.seed, 0);
  for (uint8_t& pixel : images_) pixel = static_cast<uint8_t>(random.bits());
  for (int32_t& label : labels_)
    label = static_cast<int32_t>(random.below(static_cast<uint64_t>(config.model.classes)));
}

int64_t GeneratedBatches::planned_bytes(int64_t batch, const ImageShape& image) {
  constexpr auto kLabel = static_cast<int64_t>(sizeof(int32_t));
  return static_cast<int64_t>(kBatches) * batch * (image.bytes() + kLabel);
}

size_t GeneratedBatches::first_image(int64_t index) const {
  return static_cast<size_t>(index) % kBatches * batch_;
}

void GeneratedBatches::fill(Session& session, CompiledStep& step, int64_t index,
                            int64_t count) const {
  const PartRange own = session.own_images(count);
  fill_images(step, index, count, own.first);
  session.set_targets(
      step,
      std::span(labels_.data() + first_image(index) + own.first, static_cast<size_t>(own.count())),
      nullptr, nullptr);
  Tensor(step.host_input(2)).assign_scalar(lr_);
  const int64_t position[2] = {index, 0};
  Tensor(step.host_input(3)).assign(std::span<const int64_t>(position));
}

void GeneratedBatches::fill_images(CompiledStep& step, int64_t index, int64_t count,
                                   int64_t first) const {
  const size_t batch = first_image(index);
  const auto labels = labels_.subspan(batch, static_cast<size_t>(count));
  step.stage_input(0, images_.data() + (batch + static_cast<size_t>(first)) * image_bytes_);
  Tensor(step.host_input(1)).assign(std::span<const int32_t>(labels));
}

}  // namespace tessera
