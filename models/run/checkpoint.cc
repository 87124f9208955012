#include "tessera/models/run/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "tessera/engine/storage.h"
#include "tessera/models/data/formats/sealed_file.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr char kFormat[] = "tessera checkpoint", kWrittenBy[] = "tessera " TESSERA_VERSION;

// Calls visit(name, field) for every field, always in the same order.
template <class State, class Visit>
void each_field(State& s, Visit visit) {
  visit("step", s.step);
  visit("epoch", s.epoch);
  visit("batch", s.batch);
  visit("batches", s.batches);
  visit("images", s.images);
  visit("seed", s.seed);
  visit("evaluation_due", s.evaluation_due);
  visit("lr", s.lr);
  visit("log_images", s.log_images);
  visit("log_loss", s.log_loss);
  visit("log_correct", s.log_correct);
  visit("epoch_images", s.epoch_images);
  visit("epoch_loss", s.epoch_loss);
  visit("epoch_correct", s.epoch_correct);
  visit("train_loss", s.train_loss);
  visit("train_accuracy", s.train_accuracy);
  visit("skipped", s.skipped);
  visit("skipped_in_a_row", s.skipped_in_a_row);
  visit("best_step", s.best_step);
  visit("best_value", s.best_value);
  visit("since_best", s.since_best);
  visit("plateau_factor", s.plateau_factor);
  visit("plateau_best", s.plateau_best);
  visit("plateau_bad", s.plateau_bad);
  visit("plateau_cooldown", s.plateau_cooldown);
  visit("schedule_version", s.schedule_version);
}

const char* dtype_of_field(int64_t) { return "int64"; }
const char* dtype_of_field(double) { return "float64"; }

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Returns the group of a tensor in the file.
const char* group_of(Role role) {
  if (role == Role::parameter) return "weights";
  return role == Role::optimizer_state ? "optimizer" : "statistics";
}

// Returns the tensors with their names in the file.
std::vector<NamedTensor> named(const Tensors& tensors) {
  constexpr std::string_view kOptimizer = "optimizer.";
  std::vector<NamedTensor> all;
  for (const Tensor& tensor : tensors) {
    const Storage& storage = *tensor.impl()->storage;
    std::string_view name = storage.name;
    if (storage.role == Role::optimizer_state && name.starts_with(kOptimizer))
      name.remove_prefix(kOptimizer.size());
    all.push_back({fmt::format("{}/{}", group_of(storage.role), name), tensor});
  }
  return all;
}

// Returns whether a tensor of a file is state of LossScale.
bool of_loss_scale(std::string_view name) { return name.starts_with("optimizer/loss_scale"); }

std::vector<ArraySpec> specs_of(const std::vector<NamedTensor>& tensors) {
  std::vector<ArraySpec> specs;
  for (const auto& [name, tensor] : tensors)
    specs.push_back({name,
                     std::string(name_of(tensor.dtype())),
                     {tensor.shape().begin(), tensor.shape().end()}});
  TrainingState state;
  each_field(state, [&](const char* name, auto field) {
    specs.push_back({std::string("training/") + name, dtype_of_field(field), {}});
  });
  return specs;
}

void check(const TrainingState& s) {
  auto need = [](bool holds, const char* text) {
    if (!holds) throw Error(fmt::format("is inconsistent: {}", text));
  };
  need(s.batches > 0 && s.batch >= 0 && s.batch < s.batches && s.epoch >= 0 && s.step >= 0 &&
           s.epoch <= s.step && s.step % s.batches == s.batch && s.step / s.batches == s.epoch,
       "step, epoch and batch do not fit together");
  need(s.log_images >= 0 && std::isfinite(s.log_loss) && std::isfinite(s.log_correct) &&
           s.epoch_images >= 0 && std::isfinite(s.epoch_loss) && std::isfinite(s.epoch_correct),
       "the sums for the metrics are not finite");
  need(s.skipped_in_a_row >= 0 && s.skipped_in_a_row <= s.skipped && s.skipped <= s.step,
       "more batches were skipped than steps were run");
  need(s.since_best >= 0 && s.plateau_bad >= 0 && s.plateau_cooldown >= 0 &&
           s.plateau_factor >= 0 && s.plateau_factor <= 1 && std::isfinite(s.plateau_best),
       "the evaluation counts or the plateau state are invalid");
  need(s.schedule_version == kScheduleVersion,
       "its schedule is of another version of this program");
  need(s.best_step >= -1 && s.best_step <= s.step, "the best step is later than the last step");
}

[[noreturn]] void fail_checkpoint(const std::string& path, const std::string& what) {
  throw CheckpointError(fmt::format("checkpoint '{}': {}", path, what));
}

// The offsets of all tensors in a file, and the bytes before them.
struct CheckpointLayout {
  CheckpointLayout(const std::vector<NamedTensor>& all, const std::string& config,
                   const std::string& inference) {
    for (const ArraySpec& spec : specs_of(all)) tensors.push_back(safe_tensor(spec));
    tensors.push_back(safe_tensor(kSealArray));
    SafetensorsMetadata metadata = own_metadata(kFormat);
    metadata.emplace_back("written_by", kWrittenBy);
    metadata.emplace_back("config", config);
    if (!inference.empty()) metadata.emplace_back("inference", inference);
    front = safetensors_front(tensors, metadata);
  }
  size_t image_bytes() const { return static_cast<size_t>(tensors.back().offset); }

  std::vector<SafeTensor> tensors;
  std::string front;
};

}  // namespace

size_t CheckpointImage::planned_bytes(const Tensors& tensors, const std::string& config,
                                      size_t inference_bytes) {
  return CheckpointLayout(named(tensors), config, std::string(inference_bytes, ' ')).image_bytes();
}

CheckpointImage::CheckpointImage(Tensors tensors, const std::string& config,
                                 const std::string& inference, RawMemory& memory) {
  const std::vector<NamedTensor> all = named(tensors);
  const CheckpointLayout layout(all, config, inference);
  region_ = Region("checkpoint", layout.image_bytes(), memory);
  std::memcpy(region_.data(), layout.front.data(), layout.front.size());
  for (size_t i = 0; i + 1 < layout.tensors.size(); ++i) {
    std::byte* to = region_.data() + layout.tensors[i].offset;
    if (i < all.size())
      copies_.push_back({all[i].tensor, to});
    else
      fields_.push_back(to);
  }
}

void CheckpointImage::take(const TrainingState& state) {
  size_t i = 0;
  each_field(state,
             [&](const char*, auto field) { std::memcpy(fields_[i++], &field, sizeof(field)); });
  for (const auto& [tensor, to] : copies_) {
    Context& where = context(tensor.device());
    where.issue_to_host(to, tensor.impl()->data(), tensor.spec().bytes(), where.stream());
  }
  for (size_t k = 0; k < copies_.size(); ++k) {
    const Device device = copies_[k].first.device();
    if (k == 0 || device != copies_[k - 1].first.device()) context(device).synchronize();
  }
}

CheckpointFile::CheckpointFile(const std::string& path, FileSystem& files) try : path_(path) {
  read(std::make_unique<FileSource>(path, files));
} catch (const Error& error) {
  fail_checkpoint(path, error.what());
}

CheckpointFile::CheckpointFile(std::unique_ptr<ByteSource> bytes, const std::string& name) try
    : path_(name) {
  read(std::move(bytes));
} catch (const Error& error) {
  fail_checkpoint(name, error.what());
}

void CheckpointFile::read(std::unique_ptr<ByteSource> bytes) {
  file_ = open_arrays(std::move(bytes), /*need_seal=*/true);
  if (const std::string format = file_.text("format"); format != kFormat)
    throw Error(fmt::format("is not a checkpoint: its format is '{}'", format.substr(0, 64)));
  if (config().empty()) throw Error("has no configuration");
  each_field(state_, [&](const char* name, auto& field) {
    const std::string tensor = std::string("training/") + name;
    const SafeTensor* found = file_.find(tensor);
    if (found == nullptr || found->spec() != ArraySpec{tensor, dtype_of_field(field), {}})
      throw Error(fmt::format("has no valid '{}'", tensor));
    file_.bytes->read(found->offset, &field, sizeof(field));
  });
  check(state_);
}

void CheckpointFile::load(const Tensors& tensors) const {
  std::vector<NamedTensor> all = named(tensors);
  std::vector<SafeTensor> saved = file_.contents.tensors;
  std::erase_if(all, [&](const NamedTensor& one) {
    return of_loss_scale(one.name) && file_.find(one.name) == nullptr;
  });
  std::erase_if(saved, [&](const SafeTensor& one) {
    return of_loss_scale(one.name) &&
           std::ranges::find(all, one.name, &NamedTensor::name) == all.end();
  });
  const std::string wrong = differences(specs_of(all), saved);
  if (!wrong.empty()) fail_checkpoint(path_, "does not fit the model:" + wrong);
  std::byte piece[size_t{1} << 14];
  for (const NamedTensor& one : all) {
    const SafeTensor& found = *file_.find(one.name);
    Context& where = context(one.tensor.device());
    char* to = one.tensor.impl()->data();
    for (uint64_t at = 0; at < found.bytes;) {
      const auto count = static_cast<size_t>(std::min<uint64_t>(sizeof(piece), found.bytes - at));
      try {
        file_.bytes->read(found.offset + at, piece, count);
      } catch (const Error& error) {
        fail_checkpoint(path_, error.what());
      }
      where.copy_from_host(to + at, piece, count);
      at += count;
    }
    ++one.tensor.impl()->storage->version;
  }
}

}  // namespace tessera
