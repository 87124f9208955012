// The average pooling ops, and the average over whole images.
#include "tessera/layers/ops/pool2d_cpu.h"
#include "tessera/layers/shared/channel_reduce_simd.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

// The derived class has compute<S>(pool, shape, input, output, scratch). kLaunch does it on a GPU.
template <class Derived, auto kLaunch>
class AverageOp : public PoolOp<Derived> {
 public:
  using PoolOp<Derived>::PoolOp;
  bool differentiable() const override { return true; }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    visit_any_float(out[0].spec.dtype, [&]<class S>(S) {
      Derived::template compute<S>(ctx.pool(), this->shape_of(in[0].spec.shape), in[0].as<S>(),
                                   out[0].as<S>(), scratch.as<Computed<S>>());
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) kLaunch(ctx, this->shape_of(in[0].spec.shape), in[0], out[0]);
  }
};

class AveragePool2dGrad final : public AverageOp<AveragePool2dGrad, average_pool2d_grad_cuda> {
 public:
  using AverageOp::AverageOp;
  PoolShape shape_of(const Shape& dy) const override {
    return pool_shape(params.pool, image_of(dy, params.image));
  }
  int64_t strip_elements(const PoolShape& s, bool half) const override {
    return half ? std::min(s.out_h(), s.kernel_h) * s.out_w() * s.c + s.w * s.c : 0;
  }
  std::string_view name() const override { return "average_pool2d_grad"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"dy"});
    check.floats();
    check.rank(0, 4);
    const Shape x = image_of(in[0].shape, params.image);
    check.shape(0, pooled(check, params.pool, x), "the output shape of average_pool2d");
    return {{in[0].dtype, x, {}}};
  }

  template <class S>
  static void compute(ThreadPool& pool, const PoolShape& s, const S* dy, S* dx,
                      Computed<S>* scratch) {
    using T = Computed<S>;
    const int64_t out_h = s.out_h(), out_w = s.out_w(), length = s.w * s.c;
    const int64_t dy_elements = std::min(out_h, s.kernel_h) * out_w * s.c;
    pool.parallel_for_thread(s.n * s.h, s.n * s.h * length, [&](int64_t row, int thread) {
      const int64_t b = row / s.h, i = row % s.h;
      const PoolRange over = s.rows_over(i);
      T* const strip = kHalf<S> ? scratch + thread * (dy_elements + length) : nullptr;
      const T* const gradients =
          read_strip(dy + (b * out_h + over.begin) * out_w * s.c,
                     std::max<int64_t>(0, over.end - over.begin) * out_w * s.c, strip);
      T* const to = own_or_strip(dx + row * length, strip + dy_elements);
      std::fill_n(to, length, T(0));
      for (int64_t p = over.begin; p < over.end; ++p) {
        const PoolRange u = s.rows_under(p);
        for (int64_t q = 0; q < out_w; ++q) {
          const PoolRange v = s.columns_under(q);
          const T pixels = static_cast<T>(s.divisor(u, v, p, q));
          for (int64_t j = v.begin; j < v.end; ++j)
            pool_microkernels_of<T>().add_quotient(gradients + ((p - over.begin) * out_w + q) * s.c,
                                                   pixels, s.c, to + j * s.c);
        }
      }
      write_strip(to, length, dx + row * length);
    });
  }

  Tensors grad(const GradArgs& args) const override {
    return {average_pool2d(args.grad_outputs[0], params.pool)};
  }
  Cost cost(SpecView in) const override {
    return cost_with(in, window_flops(params.pool, in[0].shape));
  }
};

class AveragePool2d final : public AverageOp<AveragePool2d, average_pool2d_cuda> {
 public:
  using AverageOp::AverageOp;
  PoolShape shape_of(const Shape& x) const override { return pool_shape(params.pool, x); }
  int64_t strip_elements(const PoolShape& s, bool half) const override {
    return half ? rows_of_x(s, 1) * s.w * s.c + s.out_w() * s.c : 0;
  }
  std::string_view name() const override { return "average_pool2d"; }
  std::vector<OpAttribute> attributes() const override { return attributes_of(params.pool); }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"x"});
    check.floats();
    check.rank(0, 4);
    return {{in[0].dtype, pooled(check, params.pool, in[0].shape), {}}};
  }

  template <class S>
  static void compute(ThreadPool& pool, const PoolShape& s, const S* x, S* y,
                      Computed<S>* scratch) {
    using T = Computed<S>;
    const int64_t out_h = s.out_h(), out_w = s.out_w(), length = s.w * s.c;
    const int64_t strip_elements = rows_of_x(s, 1) * length;
    pool.parallel_for_thread(s.n * out_h, s.n * s.h * length, [&](int64_t row, int thread) {
      const int64_t b = row / out_h, i = row % out_h;
      const PoolRange u = s.rows_under(i);
      T* const strip = kHalf<S> ? scratch + thread * (strip_elements + out_w * s.c) : nullptr;
      const T* const rows = read_strip(x + (b * s.h + u.begin) * length,
                                       std::max<int64_t>(0, u.end - u.begin) * length, strip);
      T* const means = own_or_strip(y + row * out_w * s.c, strip + strip_elements);
      std::fill_n(means, out_w * s.c, T(0));
      for (int64_t j = 0; j < out_w; ++j) {
        const PoolRange v = s.columns_under(j);
        T* to = means + j * s.c;
        for (int64_t p = u.begin; p < u.end; ++p)
          for (int64_t q = v.begin; q < v.end; ++q)
            pool_microkernels_of<T>().add_quotient(rows + (p - u.begin) * length + q * s.c, T(1),
                                                   s.c, to);
        pool_microkernels_of<T>().divide(to, static_cast<T>(s.divisor(u, v, i, j)), s.c, to);
      }
      write_strip(means, out_w * s.c, y + row * out_w * s.c);
    });
  }

  Tensors grad(const GradArgs& args) const override {
    const Shape& x = args.input_specs[0].shape;
    return {apply1(std::make_shared<AveragePool2dGrad>(
                       PoolOpParams{.pool = params.pool, .image = {x[1], x[2]}}),
                   {args.grad_outputs[0]})};
  }
  Cost cost(SpecView in) const override {
    return cost_with(in, window_flops(params.pool, infer(in)[0].shape));
  }
};

// Returns the shape of one window over each image of x.
PoolShape global_shape(const Shape& x) { return pool_shape({.kernel = {x[1], x[2]}}, x); }

// dx[b,i,j,k] = dy[b,k] / (h w)
class GlobalAveragePoolGrad final
    : public AverageOp<GlobalAveragePoolGrad, global_average_pool_grad_cuda> {
 public:
  using AverageOp::AverageOp;
  Shape image(const Shape& dy) const { return {dy[0], params.image.h, params.image.w, dy[1]}; }
  PoolShape shape_of(const Shape& dy) const override { return global_shape(image(dy)); }
  int64_t strip_elements(const PoolShape& s, bool half) const override {
    return half ? (1 + s.w) * s.c : 0;
  }
  std::string_view name() const override { return "global_average_pool_grad"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"dy"});
    check.floats();
    check.rank(0, 2);
    return {{in[0].dtype, image(in[0].shape), {}}};
  }

  template <class S>
  static void compute(ThreadPool& pool, const PoolShape& s, const S* dy, S* dx,
                      Computed<S>* scratch) {
    using T = Computed<S>;
    const int64_t pixels = s.h * s.w, c = s.c;
    pool.parallel_for_thread(s.n, s.n * pixels * c, [&](int64_t b, int thread) {
      T* const strip = kHalf<S> ? scratch + thread * 2 * c : nullptr;
      S* const first = dx + b * pixels * c;
      T* const quotients = own_or_strip(first, strip + c);
      pool_microkernels_of<T>().divide(read_strip(dy + b * c, c, strip), static_cast<T>(pixels), c,
                                       quotients);
      write_strip(quotients, c, first);
      for (int64_t i = 1; i < pixels; ++i) std::copy_n(first, c, first + i * c);
    });
  }

  Tensors grad(const GradArgs& args) const override {
    return {global_average_pool(args.grad_outputs[0])};
  }
  Cost cost(SpecView in) const override { return cost_with(in, in[0].shape.elements()); }
};

// A mean over many pixels has another order of additions than average_pool2d().
class GlobalAveragePool final : public AverageOp<GlobalAveragePool, global_average_pool_cuda> {
 public:
  PoolShape shape_of(const Shape& x) const override { return global_shape(x); }
  int64_t strip_elements(const PoolShape& s, bool half) const override {
    return half ? s.h * s.w * s.c + s.c : 0;
  }
  std::string_view name() const override { return "global_average_pool"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"x"});
    check.floats();
    check.rank(0, 4);
    const Shape& x = in[0].shape;
    if (x[1] * x[2] == 0) check.fail("the images of x must have at least one pixel");
    return {{in[0].dtype, {x[0], x[3]}, {}}};
  }

  template <class S>
  static void compute(ThreadPool& pool, const PoolShape& s, const S* x, S* y,
                      Computed<S>* scratch) {
    using T = Computed<S>;
    const int64_t pixels = s.h * s.w, image = pixels * s.c;
    // The channels of few images are cut, so that each thread gets some, in whole cache lines.
    constexpr int64_t kChannelsAtOnce = 64;
    const int64_t wanted = ceil_div(pool.size(), std::max<int64_t>(s.n, 1));
    const int64_t width = round_up(std::max<int64_t>(1, ceil_div(s.c, wanted)), kChannelsAtOnce);
    const int64_t parts = ceil_div(s.c, width);
    pool.parallel_for_thread(s.n * parts, s.n * image, [&](int64_t task, int thread) {
      const int64_t first = task % parts * width, count = std::min(width, s.c - first);
      const S* const from = x + task / parts * image + first;
      S* const to = y + task / parts * s.c + first;
      T* const strip = kHalf<S> ? scratch + thread * (image + s.c) : nullptr;
      T* const means = own_or_strip(to, strip + image);
      if constexpr (std::is_same_v<S, float16>) {
        for (int64_t i = 0; i < pixels; ++i) read_strip(from + i * s.c, count, strip + i * count);
        channel_microkernels_of<T>().sum(strip, pixels, count, count, means);
      } else {
        channel_microkernels_of<S>().sum(from, pixels, s.c, count, means);
      }
      pool_microkernels_of<T>().divide(means, static_cast<T>(pixels), count, means);
      write_strip(means, count, to);
    });
  }

  Tensors grad(const GradArgs& args) const override {
    const Shape& x = args.input_specs[0].shape;
    return {apply1(std::make_shared<GlobalAveragePoolGrad>(PoolOpParams{{}, {x[1], x[2]}}),
                   {args.grad_outputs[0]})};
  }
  Cost cost(SpecView in) const override { return cost_with(in, in[0].shape.elements()); }
};

}  // namespace

Tensor average_pool2d(const Tensor& x, const Pool2dParams& params) {
  return apply1(std::make_shared<AveragePool2d>(PoolOpParams{params}), {x});
}

Tensor global_average_pool(const Tensor& x) {
  return apply1(std::make_shared<GlobalAveragePool>(), {x});
}

}  // namespace tessera
