// Convolution: a convolution or one of its two gradients on the CPU, over raw memory, for float,
// double and bfloat16, prepared once for a shape. Activations are NHWC, filters OHWI, both dense:
//
//   x [n, h, w, c]   f [o, kh, kw, c/groups]   y [n, out_h, out_w, o]
//   y[b,i,j,q] = sum over u, v, k of x[b, i*stride_h - pad_h + u*dilation_h,
//                                      j*stride_w - pad_w + v*dilation_w, k] * f[q,u,v,k]
//
// k runs over the channels of q's group, and x is zero outside the image.
//
// To add an algorithm, add a file with a class derived from Convolution and an entry in the list of
// ConvAlgorithm.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tessera/engine/dtype.h"
#include "tessera/layers/shared/epilogue_hook.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/integers.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

struct ConvShape {
  int64_t n = 1, h = 1, w = 1, c = 1;      // input: images, rows, columns, channels
  int64_t o = 1, kh = 1, kw = 1;           // filters and their size; groups divides c and o
  int64_t stride_h = 1, stride_w = 1;      // >= 1
  int64_t pad_h = 0, pad_w = 0;            // zeros on either side, >= 0
  int64_t dilation_h = 1, dilation_w = 1;  // distance between taps, >= 1
  int64_t groups = 1;

  int64_t out_h() const { return (h + 2 * pad_h - dilation_h * (kh - 1) - 1) / stride_h + 1; }
  int64_t out_w() const { return (w + 2 * pad_w - dilation_w * (kw - 1) - 1) / stride_w + 1; }
  int64_t pixels() const { return n * out_h() * out_w(); }  // pixels of y
  int64_t weights() const { return o * kh * kw * (c / groups); }
  int64_t inputs() const { return n * h * w * c; }
  // Returns true if each channel has its own filter.
  bool depthwise() const { return groups > 1 && groups == c && groups == o; }
  // Returns true if each pixel of y depends only on the same pixel of x.
  bool pointwise() const {
    return kh == 1 && kw == 1 && stride_h == 1 && stride_w == 1 && pad_h == 0 && pad_w == 0;
  }
  // Return the taps of a column or row of y that are in the image: others would add zeros.
  int64_t column_taps() const { return taps_inside(h, out_h(), kh, stride_h, pad_h, dilation_h); }
  int64_t row_taps() const { return taps_inside(w, out_w(), kw, stride_w, pad_w, dilation_w); }
  static int64_t taps_inside(int64_t in, int64_t out, int64_t taps, int64_t stride, int64_t pad,
                             int64_t dilation) {
    int64_t inside = 0;
    for (int64_t i = -pad; i < out * stride - pad; i += stride)
      for (int64_t u = 0; u < taps; ++u) inside += i + u * dilation >= 0 && i + u * dilation < in;
    return inside;
  }
  bool operator==(const ConvShape&) const = default;
};

enum class ConvPass {
  forward,      // x, f -> y
  input_grad,   // dy, f -> dx, the gradient of sum(y * dy) with respect to x
  weight_grad,  // x, dy -> df, the gradient of sum(y * dy) with respect to f
};

// A convolution or a gradient of one over dense NHWC images and OHWI filters, on any device.
struct ConvRequest {
  ConvPass pass = ConvPass::forward;
  ConvShape shape;
  DType dtype = DType::f32;  // both inputs' type
  int64_t alignment = 16;    // bytes, for inputs and output; read only for GPUs
  // The output has the dtype of the inputs; but the gradient of filters has no 16 bits.
  DType result() const { return pass == ConvPass::weight_grad ? compute_type(dtype) : dtype; }
  bool operator==(const ConvRequest&) const = default;
};

// The fused programs: `prologue` computes the first input, if set; `epilogue` is applied to y or
// dx; df has none.
template <class T>
struct ConvHooks {
  Prologue<T> prologue;
  Epilogue<Computed<T>> epilogue;
  BiasActivation<T> activation = {};    // before the epilogue, if set; requires applies()
  const float* wide_filters = nullptr;  // set with ConvVariant::wide_filters
};

// The form of the inputs and the result of run().
struct ConvVariant {
  bool prologue = false;      // maybe with a prologue; requires takes_prologue()
  bool packed = false;        // filters from pack(); forward only, requires packs_filters()
  bool in_ranges = false;     // `out` is null: only the epilogue gets the result; not for df
  bool wide_filters = false;  // `b` is null: filters of float32, rounded to T as they are read;
                              // requires ConvAlgorithm::rounds_filters
  bool operator==(const ConvVariant&) const = default;
};

// The operands of run_rows().
template <class T>
struct ConvRows {
  const T* const* in;                // rows that the result reads, null outside the image
  int64_t count;                     // rows of the result
  const T* filters;                  // packed
  const Computed<T>* wide_filters;   // those of a depthwise convolution
  Computed<T>* out;                  // the sums; only scratch if the activation has a result
  BiasActivation<T> activation;      // starts with the first of the rows
  bool reads_memory, writes_memory;  // `in` and what is written: not in the cache
};

// A Convolution of any element type.
class AnyConvolution {
 public:
  virtual ~AnyConvolution() = default;
  // Returns the bytes of scratch that run() needs with a pool of `threads` threads.
  virtual size_t scratch(int threads) const = 0;
  // Returns the number of elements that pack() writes; 0 if this convolution cannot read packed
  // filters.
  virtual int64_t packed_elements() const { return 0; }
  // Computes tables that pack() and run() read. Called once before them.
  virtual void prepare() {}
};

// One pass for one shape. The constructor and prepare() compute all that depends only on the shape.
// bfloat16 is multiplied exactly and summed in float.
template <class T>
class Convolution : public AnyConvolution {
 public:
  // Runs the pass. a and b are the inputs in the order of ConvPass. A prologue, if set, computes
  // the first input; `a` is then the prologue's input and is only prefetched. Requires `scratch` of
  // scratch(pool.size()) bytes with 64-byte alignment, used by one call at a time. The result
  // depends only on the shape, the algorithm and the instruction set, not on the number of threads.
  // Allocates nothing.
  virtual void run(ThreadPool& pool, const T* a, const T* b, Computed<T>* out, void* scratch,
                   const ConvHooks<T>& hooks) const = 0;
  virtual void pack(ThreadPool& /*pool*/, const T* /*filters*/, T* /*packed*/) const {}

  // Computes rows of y on the calling thread, with the same bits as run(): a stage of a RowChain
  // (row_chain.h). To a 1x1 convolution a pixel is a row, up to kMaxPixels, and follows the one
  // before it.
  static constexpr int64_t kMaxPixels = 256;
  virtual void run_rows(const ConvRows<T>& /*rows*/) const {}

  // Returns whether run() and run_rows() apply this to sums in registers.
  virtual bool applies(const BiasActivation<T>& /*activation*/) const { return false; }
};

// Returns C<T>(args...) for the C++ type T of the dtype, which is in the list.
template <template <class> class C, class... Types, class... Args>
std::unique_ptr<AnyConvolution> make_convolution(TypeList<Types...> types, DType dtype,
                                                 const Args&... args) {
  return visit_types(types, dtype, [&]<class T>(T) -> std::unique_ptr<AnyConvolution> {
    return std::make_unique<C<T>>(args...);
  });
}
// The types that some convolutions take; others take FloatTypes.
using ConvTypes = TypeList<float, double, bfloat16>;
// Those that are summed in float32.
using SingleTypes = TypeList<float, bfloat16>;
inline bool is_single(DType dtype) {
  return visit_types(SingleTypes(), dtype, [](auto) { return true; });
}

inline int64_t bytes_of(DType dtype) { return static_cast<int64_t>(size_of(dtype)); }

// An algorithm of convolutions on the CPU. All but "eigen" are written by hand for AVX2 and
// AVX-512.
struct ConvAlgorithm {
  std::string_view name;  // in profiles
  // Returns true if the algorithm can compute the request and is faster than those after it in the
  // list, estimated from the shape alone.
  bool (*applies)(const ConvRequest& request, const CpuSettings& settings);
  // Returns a convolution that is not prepared yet; cheap.
  std::unique_ptr<AnyConvolution> (*make)(const ConvRequest& request, ConvVariant form);
  // Returns true if a prologue is applied while the first input is read. Otherwise that whole input
  // is computed into scratch first.
  bool (*takes_prologue)(const ConvRequest& request) = never;
  // Returns true if passes may fuse a prologue. A weight gradient may also have one that only the
  // forward pass applies while reading: the input that it writes to scratch was not written by the
  // forward pass.
  bool (*absorbs_prologue)(const ConvRequest& request) = never;
  // Returns true if constant filters should be prepacked.
  bool (*packs_filters)(const ConvRequest& request) = never;
  // Returns true if the convolution may be a stage of a RowChain.
  bool (*computes_rows)(const ConvRequest& request) = never;
  // Returns true if the algorithm takes inputs of 16 bits as they are; others get float32.
  bool (*takes_half)(const ConvRequest& request) = never;
  // Whether filters are read in float32 anyway, and may be rounded to 16 bits then.
  bool rounds_filters = false;

  static bool never(const ConvRequest&) { return false; }
  static bool bfloat16_inputs(const ConvRequest& request) { return request.dtype == DType::bf16; }
  // Returns the request with the dtype of the inputs that the algorithm gets.
  ConvRequest as_taken(ConvRequest request) const {
    if (!takes_half(request)) request.dtype = compute_type(request.dtype);
    return request;
  }

  // Best first; each is defined in the file that implements it.
  static const ConvAlgorithm winograd4, winograd2, depthwise3x3, image_lanes, column_lanes, direct,
      eigen;
};

// Returns the algorithms that apply and that this build and processor have; never empty. The first
// is the one to use: eigen if settings.kernels is CpuKernels::eigen, else the best.
std::vector<const ConvAlgorithm*> conv_algorithms(const ConvRequest& request,
                                                  const CpuSettings& settings);
// Returns the algorithm of this name. Throws InternalError if there is none.
const ConvAlgorithm& conv_algorithm(std::string_view name);

// Returns a prepared convolution. It is immutable, so all nodes with the same request, in all
// programs, share it and its tables. Thread-safe.
std::shared_ptr<const AnyConvolution> shared_convolution(const ConvAlgorithm& algorithm,
                                                         const ConvRequest& request,
                                                         ConvVariant form = {});

}  // namespace tessera
