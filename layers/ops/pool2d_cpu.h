// Pooling ops: the parts that pool2d.cc and average_pool2d.cc share. Rows of 16 bits are converted
// one by one, in scratch. Results do not depend on the number of threads.
#pragma once

#include <algorithm>

#include "tessera/engine/half_numbers.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/layers/ops/pool2d_simd.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/epilogue.h"
#include "tessera/layers/shared/pool_windows.h"

namespace tessera {

// The attributes of all pooling ops.
struct PoolOpParams {
  Pool2dParams pool;
  Size2 image = 0;                                      // gradients: h and w of x
  bool positions = false;                               // maximum: a second output for the gradient
  ScalarProgram prologue = plain_epilogue(DType::f32);  // maximum: applied to x as it is read
  ScalarProgram epilogue = plain_epilogue(DType::f32);  // maximum's gradient: applied to dx
  bool operator==(const PoolOpParams&) const = default;
};

std::vector<OpAttribute> attributes_of(const Pool2dParams& p);
PoolShape pool_shape(const Pool2dParams& p, const Shape& x);
// Checks the settings and returns the shape of y.
Shape pooled(const InputCheck& check, const Pool2dParams& p, const Shape& x);

// Counts one comparison or addition for each pixel of each window of y. An average has one addition
// less, but a division.
inline int64_t window_flops(const Pool2dParams& p, const Shape& y) {
  return y.elements() * p.kernel.h * p.kernel.w;
}

inline Shape image_of(const Shape& dy, Size2 image) { return {dy[0], image.h, image.w, dy[3]}; }

template <class Derived>
class PoolOp : public OpBase<Derived, PoolOpParams> {
 public:
  using OpBase<Derived, PoolOpParams>::OpBase;
  // Returns the shape of the pooling whose first input, x or dy, has this shape.
  virtual PoolShape shape_of(const Shape& first) const = 0;
  // Returns the elements of scratch that a thread computes with; half: the input has 16 bits.
  virtual int64_t strip_elements(const PoolShape& s, bool half) const = 0;

  bool takes_half(DeviceKind, SpecView in) const override {
    return in[0].dtype == this->infer(in)[0].dtype;
  }
  std::vector<Algorithm> algorithms(SpecView in, const Target& target) const override {
    if (!target.device.is_cpu()) return {{}};
    const DType type = in[0].dtype;
    const int64_t elements = target.threads * strip_elements(shape_of(in[0].shape), is_half(type));
    return {{.scratch_bytes = static_cast<size_t>(elements) * size_of(compute_type(type))}};
  }
};

template <class T>
const PoolMicrokernelsOf<T>& pool_microkernels_of() {
  return microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(pool_microkernels));
}

template <class S>
constexpr bool kHalf = is_half(dtype_of<S>);

// Returns elements as the numbers that are computed with: where they are, or converted to `strip`.
template <class S>
const Computed<S>* read_strip(const S* x, [[maybe_unused]] int64_t count,
                              [[maybe_unused]] Computed<S>* strip) {
  if constexpr (kHalf<S>) {
    widen_half(dtype_of<S>, x, 0, count, strip);
    return strip;
  } else {
    return x;
  }
}

// Returns the place to which `count` elements of a result are computed; write_strip() takes them to
// `to`.
template <class S>
Computed<S>* own_or_strip([[maybe_unused]] S* to, [[maybe_unused]] Computed<S>* strip) {
  if constexpr (kHalf<S>)
    return strip;
  else
    return to;
}
template <class S>
void write_strip([[maybe_unused]] const Computed<S>* from, [[maybe_unused]] int64_t count,
                 [[maybe_unused]] S* to) {
  if constexpr (kHalf<S>) narrow_to_half(dtype_of<S>, from, count, to);
}

// Returns the rows of x for `rows` rows of y.
inline int64_t rows_of_x(const PoolShape& s, int64_t rows) {
  return std::min(s.h, (rows - 1) * s.stride_h + s.kernel_h);
}

}  // namespace tessera
