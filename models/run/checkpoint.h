// One checkpoint: everything that training needs to go on as if it had never stopped, in a
// safetensors file of ours (models/run/array_file.h).
//
//   weights/<name>       parameters                         as in weights.safetensors
//   statistics/<name>    running statistics of batch norm
//   optimizer/<name>     momenta, step counts, averages (ema.<name>)
//   training/<field>     TrainingState, int64 or float64 scalars: step, epoch, batch, seed ...
//   metadata config      the resolved configuration, YAML
//            inference   what inference needs besides, JSON (models/run/inference.h)
//            written_by  "tessera 1.0"
//
// Random numbers need no state but the seed and the position: their keys are made of both. All that
// decides about bits is there; times and paths, but for those in the configuration, are not: equal
// trainings give equal files. The last 23 bytes are a checksum (models/data/formats/sealed_file.h).
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

// Where a training stands, besides the values of tensors.
struct TrainingState {
  int64_t step = 0;     // steps done
  int64_t epoch = 0;    // of the next batch
  int64_t batch = 0;    // the next batch's index in its epoch; step = epoch * batches + batch
  int64_t batches = 1;  // of an epoch
  int64_t images = 0;   // of an epoch
  int64_t seed = 0;
  int64_t evaluation_due = 0;  // 1: stopped before the evaluation that follows this step; 2: with
                               // data.validation, before that of the test set at the end
  double lr = 0;               // of the last step
  // Sums over the images since the last line of the metrics.
  int64_t log_images = 0;
  double log_loss = 0, log_correct = 0;
  // The same since the epoch began.
  int64_t epoch_images = 0;
  double epoch_loss = 0, epoch_correct = 0;
  // The last line of training metrics.
  double train_loss = 0, train_accuracy = 0;
  // Batches that train.non_finite left out: in all, and the last ones in a row.
  int64_t skipped = 0, skipped_in_a_row = 0;
  // The best evaluation so far: its step, -1 for none, and what was compared.
  int64_t best_step = -1;
  double best_value = 0;
  int64_t since_best = 0;  // evaluations
  // Of schedule: plateau (models/config/schedule.h); a factor of 0 is 1.
  double plateau_factor = 0, plateau_best = 0;
  int64_t plateau_bad = 0, plateau_cooldown = 0;
  int64_t schedule_version = kScheduleVersion;  // of the formulas that it began with

  bool operator==(const TrainingState&) const = default;
};

// A checkpoint file in memory but for its checksum, made once before training: its tensors have
// fixed places, so taking a checkpoint copies values and nothing else. Not thread-safe.
class CheckpointImage {
 public:
  // How large an image would be, without making it. `inference_bytes`: of the text as JSON writes
  // it, between its quotes.
  static size_t planned_bytes(const Tensors& tensors, const std::string& config,
                              size_t inference_bytes = 0);
  // Takes all its memory, in one request. Throws OutOfMemory. `inference`: may be empty.
  CheckpointImage(Tensors tensors, const std::string& config, const std::string& inference = "",
                  RawMemory& memory = cpu_memory());
  // Copies the state and all tensors; waits for their device. Allocates nothing.
  void take(const TrainingState& state);
  std::span<const std::byte> bytes() const { return {region_.data(), region_.bytes()}; }

 private:
  struct Copy {
    Tensor tensor;
    std::byte* to;
  };
  Region region_;
  std::vector<Copy> copies_;
  std::vector<std::byte*> fields_;  // of TrainingState, in its order
};

// A file whose checksum is right and which says where training stood. Reading takes memory for
// names and shapes only; values go from the file into tensors in small pieces.
class CheckpointFile {
 public:
  explicit CheckpointFile(const std::string& path, FileSystem& files = file_system());
  // For bytes from elsewhere; `name`: what errors call them.
  CheckpointFile(std::unique_ptr<ByteSource> bytes, const std::string& name);

  const std::string& path() const { return path_; }
  const TrainingState& state() const { return state_; }
  std::string config() const { return file_.text("config"); }
  // Empty if none was given.
  std::string inference() const { return file_.text("inference"); }
  std::string written_by() const { return file_.text("written_by"); }

  // Fills all tensors. The file must hold exactly these; each one that is missing, too many or
  // different is listed, and then no tensor has been touched.
  void load(const Tensors& tensors) const;

 private:
  void read(std::unique_ptr<ByteSource> bytes);
  std::string path_;
  ArrayFile file_;
  TrainingState state_;
};

}  // namespace tessera
