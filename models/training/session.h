// Session: a configured model with its optimizer and its compiled functions, training and
// evaluation, which share one arena. Independent of data sets and files. With an exchange, several
// processes with the same configuration compute one training step together, each some of its parts:
// PartSums adds the losses, counts and gradients of the parts of a batch (train.accumulate), in
// this process and then over all.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/autograd.h"
#include "tessera/engine/eager.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/tensor.h"
#include "tessera/graph/compile.h"
#include "tessera/layers/module.h"
#include "tessera/layers/ops/exchange.h"
#include "tessera/layers/optimizers/ema.h"
#include "tessera/layers/optimizers/loss_scale.h"
#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/models/config/config.h"
#include "tessera/models/data/dataset.h"

namespace tessera {

// The results of a part, or their sums for several parts.
struct BatchResults {
  Tensor loss, correct;  // float32 []
  Tensors gradients;     // one for each parameter, in order
};

// Sums form the tree of runtime/exchange/part_tree.h. In a process they are made as the digits of a
// binary counter are carried: when part k is done, one addition for each 1 bit at the end of k, so
// at most log2(parts) sums wait. A gradient is added as soon as it is complete; in the last part
// of a process it is sent then, in buckets, while the backward pass goes on.
class PartSums {
 public:
  // `parameters` are those that have gradients. Without an exchange this process has all parts.
  PartSums(int64_t parts, const Tensors& parameters, std::shared_ptr<Exchange> exchange);

  PartRange own() const { return own_; }
  // Computes part k. compute(sink) returns its loss and counts, and passes its gradients to sink.
  // Call it for all own parts in order.
  void add(int64_t k, const std::function<BatchResults(const GradientSink& sink)>& compute);
  // Returns the sums over all parts, and applies the updates of running statistics in the order of
  // parts. Waits for the other processes.
  BatchResults total();

 private:
  struct Bucket {
    size_t first, last, missing;  // parameters; those whose gradients are to come
    Exchanged sum = {};
  };
  Tensor carried(const std::function<Tensor&(BatchResults&)>& value_of, Tensor value);
  void complete(size_t parameter, Tensors& last);
  void start_statistics();
  void update_statistics();

  const int64_t parts_;
  const std::shared_ptr<Exchange> exchange_;
  const PartRange own_;
  std::vector<PartNode> nodes_;
  std::vector<BatchResults> sums_;  // one for each node
  std::ptrdiff_t kept_ = 0;         // sums to which the part at hand is not added
  std::vector<Bucket> buckets_;
  std::vector<std::vector<DeferredUpdate>> updates_;  // by own part
  Tensors own_statistics_;                            // the values of these updates, by own part
  Exchanged statistics_ = {};                         // those of the other parts
  const AbandonOnError abandon_;  // the last: destroyed before the memory of a message
};

class Session {
 public:
  // `device` is where the steps run, `image` the shape that the loader delivers; `normalization`
  // has one entry per channel. Declares all persistent tensors; allocates no memory. Ignores mode,
  // planner and arena in `options`; dump_after applies to the training step. Throws ConfigError for
  // an unknown model or planner.
  Session(const Config& config, Device device, const ImageShape& image,
          const Normalization& normalization, CompileOptions options = {},
          std::shared_ptr<Exchange> exchange = nullptr);
  ~Session();

  // Returns the training step for `batch` images, of which this process has n =
  // own_images(batch).count().
  // Arguments: images uint8 [n x H x W x C], labels int32 [batch], lr float64 [], position int64
  // [2] = {step, index of the first image}; write them with host_input() and stage_input()
  // (graph/compile.h), then submit the step. Results: mean loss and number of correct predictions,
  // float32 []; if skips(), a third: lr, or NaN if the loss or a gradient was not finite, so that
  // nothing was updated; if the loss is scaled dynamically, a fourth: 1 / scale, float32 [1]. The
  // first call for a batch prepares the step; later calls find it without allocating.
  CompiledStep& train_step(int64_t batch);
  // Returns whether a step from which a number is not finite updates nothing: if
  // train.non_finite is skip, or the loss is scaled.
  bool skips() const { return skips_; }
  PartRange own_images(int64_t batch) const;
  // Writes the fifth argument of a training step, targets float32 [n x classes], which the loss
  // uses instead of the labels if data.augment mixes images: shares[i] at labels[i], the rest at
  // partners[i]; without partners 1 at labels[i]. Does nothing if no images are mixed.
  void set_targets(CompiledStep& step, std::span<const int32_t> labels, const int32_t* partners,
                   const float* shares);
  // Returns the evaluation step. Arguments: images and labels. Results: mean loss, number of
  // correct predictions, number of correct top-5 predictions, float32 []; the predicted classes,
  // int64 [batch], and their confidence, float32 [batch].
  CompiledStep& evaluation_step(int64_t batch);
  // Makes eager tensors come from memory.allocator with memory.reserve, and hold at most `limit`
  // bytes, until the session ends. Requires that no step is prepared yet. Throws OutOfMemory if the
  // reserve cannot be allocated.
  void use_eager_memory(std::optional<int64_t> limit);
  // Allocates all memory now, so that the prepared steps allocate none.
  void bind();

  // The shape of an image in a batch.
  const ImageShape& image() const { return image_; }
  Store& store() { return store_; }
  Device device() const { return device_; }
  // Returns the memory for batches from which stage_input() can copy directly.
  RawMemory& staging_memory() const;
  size_t arena_bytes() const;
  double compile_milliseconds() const;
  // Return the name and the bytes of every block of memory of a bound session: on the host, and on
  // the GPU if it runs on one.
  std::vector<MemoryItem> regions() const;
  std::vector<MemoryItem> gpu_regions() const;

  // Saves parameters and running statistics without optimizer state, and the step that they belong
  // to; with ema.decay their averages, which load_weights() assigns to both. Also saves the text
  // `inference` (models/run/inference.h) unless it is empty.
  void save_weights(const std::string& path, std::optional<int64_t> step = {},
                    const std::string& inference = "");
  void load_weights(const std::string& path);

 private:
  std::vector<MemoryItem> step_regions() const;
  Tensors train(const Tensors& arguments, int64_t batch);
  Tensors evaluate(const Tensors& arguments);
  BatchResults train_part(const Tensor& images, const Tensor& labels, const Tensor& targets,
                          double share, const Tensor& scale, const GradientSink& sink);
  BatchResults train_parts(const Tensors& arguments, int64_t batch);
  void update(Tensors gradients, const Tensor& lr);

  Config config_;
  ImageShape image_;
  Normalization normalization_;
  const Device device_;
  std::optional<EagerAllocatorScope> eager_memory_;
  Store store_;
  std::unique_ptr<Module> model_, averaged_;  // averaged_: if ema.decay is set
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Ema> ema_;
  std::optional<LossScale> scale_;
  std::shared_ptr<Arenas> arenas_;
  CompileOptions options_;                            // for training steps
  std::vector<std::unique_ptr<Compiled>> functions_;  // one for each training step; evaluation
  std::map<int64_t, CompiledStep*> train_steps_, evaluation_steps_;  // by batch
  bool mixes_, skips_;
  const std::shared_ptr<Exchange> exchange_;
};

// Returns the shape of an image in a training step.
ImageShape training_image(const Config& config, const DataNeed& data);
// Returns the mean 0.5 and the std 0.25 for each channel, for images that are not real.
Normalization plain_normalization(const ImageShape& image);

// Returns the loss that the configuration names, of logits [n, c]; shape []. `targets` [n, c] is
// defined if images are mixed; otherwise `labels` int32 [n] are used. Let t be the targets or 1 at
// the label, s = loss.label_smoothing, t' = (1 - s) t + s / c:
//
//   cross_entropy   mean over images of sum_j w_j t'_j (-log softmax_j); for labels the mean is
//                   weighted, divided by the sum of w of the labels, as in PyTorch, but 0 if that
//                   sum is 0
//   bce             mean of the binary cross-entropies of sigmoid(logits) against t', which with
//                   loss.target_threshold become 1 above it, else 0, as in timm
//   mse             mean of (logits - t')^2
//
// w are loss.class_weights, 1 if there are none. `scale` is class_weight_scale() of the batch if
// the images are a part of it, else undefined. The losses of the parts, each times its share of the
// images, then add up to the loss of the batch.
Tensor training_loss(const LossConfig& config, const Tensor& logits, const Tensor& labels,
                     const Tensor& targets, const Tensor& scale = {});

// Returns the factor n / (sum of w of the labels), 0 if that sum is 0, that turns a mean over n
// images into one weighted by loss.class_weights; labels int32 [n]; the result is float32 [].
// Undefined if there are no weights.
Tensor class_weight_scale(const LossConfig& config, const Tensor& labels);

}  // namespace tessera
