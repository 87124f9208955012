// Checkpoint files: everything that a training needs to resume as if it had never stopped, as
// safetensors (models/run/array_file.h).
//
//   weights/<name>       parameters                         as in weights.safetensors
//   statistics/<name>    running statistics of batch norm
//   optimizer/<name>     momenta, step counts, averages (ema.<name>)
//   training/<field>     TrainingState, int64 or float64 scalars: step, epoch, batch, seed ...
//   metadata config      the resolved configuration, YAML
//            inference   the inference description, JSON (models/run/inference.h)
//            written_by  "tessera 1.0"
//
// Random numbers need only the seed and the position as state, because their keys are made of both.
// A checkpoint contains everything that affects the bits, but no times, and only the paths of the
// configuration: equal trainings give equal files. The last 23 bytes are a checksum
// (models/data/formats/sealed_file.h).
//
// Errors are CheckpointErrors (exit code 5) that name the file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/tensor.h"
#include "tessera/memory/regions.h"
#include "tessera/models/run/array_file.h"
#include "tessera/runtime/files/file_system.h"

namespace tessera {

// Version of the formulas of schedules (models/config/schedule.h).
inline constexpr int64_t kScheduleVersion = 1;

// The state of a training, in addition to the values of tensors.
struct TrainingState {
  int64_t step = 0;     // steps done
  int64_t epoch = 0;    // epoch of the next batch
  int64_t batch = 0;    // the next batch's index in its epoch; step = epoch * batches + batch
  int64_t batches = 1;  // batches per epoch
  int64_t images = 0;   // images per epoch
  int64_t seed = 0;
  int64_t evaluation_due = 0;  // 1: the evaluation after this step is due; 2: with data.validation,
                               // the test set is due at the end
  double lr = 0;               // learning rate of the last step
  // Sums over the images since the last line of the metrics.
  int64_t log_images = 0;
  double log_loss = 0, log_correct = 0;
  // Sums over the images since the epoch began.
  int64_t epoch_images = 0;
  double epoch_loss = 0, epoch_correct = 0;
  // The last line of training metrics.
  double train_loss = 0, train_accuracy = 0;
  // Batches from which nothing was updated (Session::skips()): in total, and without interruption
  // up to now.
  int64_t skipped = 0, skipped_in_a_row = 0;
  // The best evaluation so far: its step (-1: none) and the compared value.
  int64_t best_step = -1;
  double best_value = 0;
  int64_t since_best = 0;  // evaluations since the best
  // The state of Plateau (models/config/schedule.h); a factor of 0 means 1.
  double plateau_factor = 0, plateau_best = 0;
  int64_t plateau_bad = 0, plateau_cooldown = 0;
  int64_t schedule_version = kScheduleVersion;  // version with which the training began

  bool operator==(const TrainingState&) const = default;
};

// A checkpoint file in memory, without its checksum. Made once before training: tensors have fixed
// offsets, so take() only copies values. Not thread-safe.
class CheckpointImage {
 public:
  // Returns the size of an image without making one. `inference_bytes` is the size of the text in
  // JSON, between its quotes.
  static size_t planned_bytes(const Tensors& tensors, const std::string& config,
                              size_t inference_bytes = 0);
  // Allocates all memory at once. `inference` may be empty. Throws OutOfMemory.
  CheckpointImage(Tensors tensors, const std::string& config, const std::string& inference = "",
                  RawMemory& memory = cpu_memory());
  // Copies the state and all tensors; waits for their device. Allocates nothing.
  void take(const TrainingState& state);
  std::span<const std::byte> bytes() const { return {region_.data(), region_.bytes()}; }

 private:
  Region region_;
  std::vector<std::pair<Tensor, std::byte*>> copies_;
  std::vector<std::byte*> fields_;  // fields of TrainingState, in order
};

// An open checkpoint file with a verified checksum. Reading allocates memory for names and shapes
// only; values are copied from the file into tensors in small chunks.
class CheckpointFile {
 public:
  explicit CheckpointFile(const std::string& path, FileSystem& files = file_system());
  // Reads `bytes`; `name` is their name in errors.
  CheckpointFile(std::unique_ptr<ByteSource> bytes, const std::string& name);

  const std::string& path() const { return path_; }
  const TrainingState& state() const { return state_; }
  std::string config() const { return file_.text("config"); }
  // Empty if none was given.
  std::string inference() const { return file_.text("inference"); }
  std::string written_by() const { return file_.text("written_by"); }

  // Fills all tensors. Requires exactly these tensors in the file; else the error lists each
  // missing, extra or different tensor, and all tensors are unchanged. Only the state of LossScale
  // may be missing, and then keeps its values, or be extra: a training may be resumed in another
  // precision.
  void load(const Tensors& tensors) const;

 private:
  void read(std::unique_ptr<ByteSource> bytes);
  std::string path_;
  ArrayFile file_;
  TrainingState state_;
};

}  // namespace tessera
