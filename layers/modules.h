// Layers as modules. Every constructor declares its parameters in the store under the module's
// name, with the store's dtype:
//
//   Conv2d conv1(store, "conv1", {.in = 3, .out = 16, .kernel = 3, .padding = 1, .bias = false});
//   Tensor y = conv1(x);
//
// A module accepts the shapes that its op accepts. Constructors throw ConfigError if a size is not
// positive, and what Store::parameter throws.
#pragma once

#include <span>
#include <vector>

#include "tessera/layers/conv2d/conv2d.h"
#include "tessera/layers/module.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/batch_norm.h"
#include "tessera/layers/ops/dropout.h"
#include "tessera/layers/ops/group_norm.h"
#include "tessera/layers/ops/layer_norm.h"
#include "tessera/layers/ops/linear.h"

namespace tessera {

// conv2d, then bias. "weight" [out, kernel.h, kernel.w, in / groups] is drawn from N(0, 2 / fan_in)
// (He et al. 2015), fan_in = kernel.h kernel.w in / groups; "bias" [out] starts as zeros. If
// `identity` is set, the first `in` filters start as identity filters, which copy one channel each
// (Zagoruyko and Komodakis 2017); it requires kernels of odd size and one group.
class Conv2d final : public Module {
 public:
  struct Settings {
    int64_t in = 0, out = 0;  // channels
    Size2 kernel = 3;         // pixels
    Size2 stride = 1;
    Size2 padding = 0;
    Size2 dilation = 1;
    int64_t groups = 1;
    bool bias = true;
    bool identity = false;
  };
  Conv2d(Store& store, std::string name, const Settings& settings);

 private:
  Tensor forward(const Tensor& x) const override;
  Conv2dParams params_;
  Tensor weight_, bias_;
};

// A convolution that decorrelates the values of a small patch of an image and scales them to
// variance 1. Each eigenvector of the patches' covariance, divided by the root of its variance, is
// a filter, and its negative another (Jordan 2024, "94% on CIFAR-10 in 3.29 seconds on a single
// GPU"). y [n, h - kernel + 1, w - kernel + 1, 2 kernel^2 in]. The filters are not trained: they
// are a buffer, which starts as zeros; whitening_filters() computes them from images.
class Whitening final : public Module {
 public:
  struct Settings {
    int64_t in = 0;      // channels
    int64_t kernel = 2;  // pixels a side
  };
  static constexpr const char* kFilters = "whitening";  // the buffer's name within the module
  static constexpr double kEps = 5e-4;                  // usual, added to each variance
  Whitening(Store& store, std::string name, const Settings& settings);

 private:
  Tensor forward(const Tensor& x) const override { return conv2d(x, filters_, {}); }
  Tensor filters_;
};

// Returns the filters [2 kernel^2 in, kernel, kernel, in] for images float32 [n, h, w, in].
// Computes in double precision and in a fixed order. Throws ShapeError if no patch fits.
std::vector<float> whitening_filters(std::span<const float> images, const Shape& shape,
                                     int64_t kernel, double eps);

// The op linear. "weight" [out, in] and "bias" [out] are drawn from U(-1/sqrt(in), 1/sqrt(in)).
class Linear final : public Module {
 public:
  struct Settings {
    int64_t in = 0, out = 0;  // features
    bool bias = true;
  };
  Linear(Store& store, std::string name, const Settings& settings);

 private:
  Tensor forward(const Tensor& x) const override { return linear(x, weight_, bias_); }
  Tensor weight_, bias_;
};

// batch_norm over the last axis. "gamma" [channels] starts as ones, "beta" as zeros, the buffers
// "running_mean" and "running_var" as zeros and ones. Training updates these buffers, unless "beta"
// is frozen (Store::freeze()): then it normalizes with them, as evaluation does.
class BatchNorm2d final : public Module {
 public:
  struct Settings {
    int64_t channels = 0;
    double eps = 1e-5;      // added to the variance
    double momentum = 0.1;  // weight of the batch in the running statistics
    bool scale = true;      // false: "gamma" is a buffer, which stays 1
  };
  BatchNorm2d(Store& store, std::string name, const Settings& settings);

 private:
  Tensor forward(const Tensor& x) const override;
  BatchNormParams params_;
  Tensor gamma_, beta_, running_mean_, running_var_;
};

// layer_norm. "gamma" [features] starts as ones, "beta" as zeros.
class LayerNorm final : public Module {
 public:
  struct Settings {
    int64_t features = 0;  // the size of the last axis
    double eps = 1e-5;     // added to the variance
  };
  LayerNorm(Store& store, std::string name, const Settings& settings);

 private:
  Tensor forward(const Tensor& x) const override { return layer_norm(x, gamma_, beta_, params_); }
  LayerNormParams params_;
  Tensor gamma_, beta_;
};

// group_norm. "gamma" [channels] starts as ones, "beta" as zeros.
class GroupNorm final : public Module {
 public:
  struct Settings {
    int64_t channels = 0;
    int64_t groups = 32;  // divides channels
    double eps = 1e-5;    // added to the variance
  };
  GroupNorm(Store& store, std::string name, const Settings& settings);

 private:
  Tensor forward(const Tensor& x) const override { return group_norm(x, gamma_, beta_, params_); }
  GroupNormParams params_;
  Tensor gamma_, beta_;
};

// prelu, in the dtype of x. "weight" [channels], or [1] shared by all channels, starts as `slope`.
class PRelu final : public Module {
 public:
  struct Settings {
    int64_t channels = 1;
    double slope = 0.25;
  };
  PRelu(Store& store, std::string name, const Settings& settings);

 private:
  Tensor forward(const Tensor& x) const override { return prelu(x, weight_); }
  Tensor weight_;
};

// Multiplies every channel by a trained number (Touvron et al. 2021). "gamma" [channels] starts
// as `init_value`.
class LayerScale final : public Module {
 public:
  struct Settings {
    int64_t channels = 0;
    double init_value = 1e-6;
  };
  LayerScale(Store& store, std::string name, const Settings& settings);

 private:
  Tensor forward(const Tensor& x) const override;
  Tensor gamma_;
};

// Squeeze and excitation (Hu et al. 2017): multiplies every channel of an image by a number between
// 0 and 1 that is computed from the means of all channels:
//
//   y = scale_channels(x, gate(fc2(activation(fc1(global_average_pool(x))))))
//
// "fc1" to `squeeze` channels and "fc2" back are 1x1 convolutions with bias.
class SqueezeExcitation final : public Module {
 public:
  using Function = Tensor (*)(const Tensor&);
  struct Settings {
    int64_t channels = 0, squeeze = 0;
    Function activation = relu;
    Function gate = sigmoid;
  };
  SqueezeExcitation(Store& store, std::string name, const Settings& settings);

 private:
  Tensor forward(const Tensor& x) const override;
  Conv2d fc1_, fc2_;
  Function activation_, gate_;
};

// dropout with probability p. Has no parameters. Its random numbers depend on its module path.
class Dropout final : public Module {
 public:
  Dropout(std::string name, double p) : Module(std::move(name)), p_(p) {}

 private:
  Tensor forward(const Tensor& x) const override { return dropout(x, p_); }
  double p_;
};

}  // namespace tessera
