#include "tessera/layers/conv2d_cpu/convolution.h"
#include "tessera/layers/conv2d_cpu/gather.h"
#include "tessera/layers/conv2d_cpu/weight_grad.h"

namespace tessera {
namespace {

template <class T>
size_t scratch_of(ConvPass pass, const ConvShape& shape, int threads) {
  if (pass == ConvPass::weight_grad) return weight_grad_scratch<T>(shape, threads);
  return gather_scratch<T>(shape, pass == ConvPass::input_grad, threads);
}

}  // namespace

size_t native_conv_scratch(ConvPass pass, const ConvShape& shape, size_t element, int threads) {
  return element == sizeof(float) ? scratch_of<float>(pass, shape, threads)
                                  : scratch_of<double>(pass, shape, threads);
}

template <class T>
std::unique_ptr<Convolution<T>> native_convolution(ConvPass pass, const ConvShape& shape) {
  if (pass == ConvPass::weight_grad) return make_weight_grad<T>(shape);
  return make_gather<T>(shape, pass == ConvPass::input_grad);
}

template std::unique_ptr<Convolution<float>> native_convolution(ConvPass, const ConvShape&);
template std::unique_ptr<Convolution<double>> native_convolution(ConvPass, const ConvShape&);

}  // namespace tessera
