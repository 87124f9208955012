// Session: a configured model with its optimizer and its two compiled steps, training and
// evaluation, which share one arena. It knows no data sets and no files.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/eager.h"
#include "tessera/engine/tensor.h"
#include "tessera/graph/compile.h"
#include "tessera/layers/module.h"
#include "tessera/layers/optimizers/ema.h"
#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/models/config/config.h"
#include "tessera/models/data/dataset.h"

namespace tessera {

class Session {
 public:
  // `device` is where the steps run, `image` what the loader hands over; `normalization` has one
  // entry per channel. Declares all persistent tensors; takes no memory. Of `options`, mode,
  // planner and arena are the session's own, and dump_after is for the training step. Throws
  // ConfigError: unknown model or planner.
  Session(const Config& config, Device device, const ImageShape& image,
          const Normalization& normalization, CompileOptions options = {});
  ~Session();

  // A training step for `batch` images: arguments images uint8 [batch x H x W x C], labels int32
  // [batch], lr float64 [], position int64 [2] = {step, index of the first image}, which are to be
  // written through host_input() and bring() (graph/compile.h) and submitted; results mean
  // loss and count of right answers, float32 []; where train.non_finite is skip, a third: lr, or
  // NaN where the loss or a gradient was not finite and therefore nothing was updated. Prepared at
  // the first call; later calls for the same batch only find it, without allocating.
  CompiledStep& train_step(int64_t batch);
  // Where data.augment mixes images there is a fifth argument, targets float32 [batch x classes],
  // which the loss takes instead of the labels: shares[i] at labels[i], the rest at partners[i];
  // without partners all of it at labels[i]. Does nothing where nothing is mixed.
  void set_targets(CompiledStep& step, std::span<const int32_t> labels, const int32_t* partners,
                   const float* shares);
  // Evaluation: arguments images and labels; results mean loss, count of right answers, count of
  // those right among the first five, float32 [], what each image is taken for, int64 [batch], and
  // how sure of it the network is, float32 [batch].
  CompiledStep& evaluation_step(int64_t batch);
  // After a run of train_step(batch): the op that was the first to make a number that is not finite
  // (graph/program.h), as text; empty where the step has none.
  std::string find_non_finite(int64_t batch);
  // Eager mode: until the session ends, eager tensors come from memory.allocator with
  // memory.reserve, and hold at most `limit` bytes. Before the first step is prepared. Throws
  // OutOfMemory where the reserve cannot be had.
  void use_eager_memory(std::optional<int64_t> limit);
  // Asks for all memory now, after which the steps that have been prepared ask for none.
  void bind();

  // Of an image in a batch.
  const ImageShape& image() const { return image_; }
  Store& store() { return store_; }
  Device device() const { return device_; }
  // Where batches are to stand so that bring() may take them from there.
  RawMemory& staging_memory() const;
  size_t arena_bytes() const;
  double compile_milliseconds() const;
  // Every block of memory that a bound session holds, name and bytes: on the host, and on the GPU
  // where it runs on one.
  std::vector<MemoryItem> regions() const;
  std::vector<MemoryItem> gpu_regions() const;

  // Parameters and running statistics, without optimizer state, and after which step they are so;
  // with ema.decay their averages. Loading gives both these values. With the text `inference`
  // (models/run/inference.h), where there is one.
  void save_weights(const std::string& path, std::optional<int64_t> step = {},
                    const std::string& inference = "");
  void load_weights(const std::string& path);

 private:
  struct Prepared {
    int64_t batch;
    CompiledStep* step;
  };
  std::vector<MemoryItem> step_regions() const;
  Tensors train(const Tensors& arguments);
  Tensors evaluate(const Tensors& arguments);
  // Of some images of a batch, or of all.
  struct Part {
    Tensor loss, correct;
    Tensors gradients;
  };
  Part train_part(const Tensor& images, const Tensor& labels, const Tensor& targets, double share,
                  const Tensor& scale);
  Part train_parts(const Tensors& arguments);
  void update(Tensors gradients, const Tensor& lr);

  Config config_;
  ImageShape image_;
  Normalization normalization_;
  const Device device_;
  std::optional<EagerAllocatorScope> eager_memory_;
  Store store_;
  std::unique_ptr<Module> model_, averaged_;  // the same of averages, where ema.decay is given
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Ema> ema_;
  std::shared_ptr<Arenas> arenas_;
  std::unique_ptr<Compiled> train_, evaluation_;
  std::vector<Prepared> train_steps_, evaluation_steps_;
  bool mixes_, skips_;
};

// Returns the shape of an image in a training step.
ImageShape training_image(const Config& config, const DataNeed& data);
// Returns the mean 0.5 and the deviation 0.25 for each channel: of images that are not real.
Normalization plain_normalization(const ImageShape& image);

// Returns the loss that a configuration names, of logits [n, c]; shape []. `targets` [n, c]: where
// images are mixed, else undefined, and `labels` int32 [n] count. With t the targets or 1 at the
// label, s = loss.label_smoothing, t' = (1 - s) t + s / c:
//
//   cross_entropy   mean over images of sum_j w_j t'_j (-log softmax_j); of labels the mean is
//                   weighted, divided by the sum of w of the labels, as PyTorch's, but 0 where
//                   that sum is 0
//   bce             mean of the binary cross-entropies of sigmoid(logits) against t', which with
//                   loss.target_threshold become 1 above it, else 0, as timm's
//   mse             mean of (logits - t')^2
//
// w are loss.class_weights, 1 where there are none. `scale`: if the images are a part of a batch,
// class_weight_scale() of the batch; else undefined. The losses of the parts, each times its share
// of the images, then add up to the loss of the batch.
Tensor training_loss(const LossConfig& config, const Tensor& logits, const Tensor& labels,
                     const Tensor& targets, const Tensor& scale = {});

// Returns the factor that makes a mean over n images one weighted by loss.class_weights, of labels
// int32 [n]: n / (sum of w of the labels), 0 if that sum is 0; float32, shape []. Undefined if
// there are no weights.
Tensor class_weight_scale(const LossConfig& config, const Tensor& labels);

}  // namespace tessera
