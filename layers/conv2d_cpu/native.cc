#include <memory>
#include <mutex>
#include <vector>

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

// One for each pass and shape that is in use: it never changes, so all nodes of that shape, in all
// programs, share it and its tables.
template <class T>
std::shared_ptr<const Convolution<T>> native_convolution(ConvPass pass, const ConvShape& shape) {
  struct Known {
    ConvPass pass;
    ConvShape shape;
    std::weak_ptr<const Convolution<T>> convolution;
  };
  static std::mutex mutex;
  static auto* all = new std::vector<Known>;  // outlives all programs
  const std::lock_guard lock(mutex);
  std::erase_if(*all, [](const Known& known) { return known.convolution.expired(); });
  for (const Known& known : *all)
    if (known.pass == pass && known.shape == shape)
      if (auto found = known.convolution.lock()) return found;
  std::shared_ptr<const Convolution<T>> made;
  if (pass == ConvPass::weight_grad) {
    made = make_weight_grad<T>(shape);
  } else {
    made = make_gather<T>(shape, pass == ConvPass::input_grad);
  }
  all->push_back({pass, shape, made});
  return made;
}

template std::shared_ptr<const Convolution<float>> native_convolution(ConvPass, const ConvShape&);
template std::shared_ptr<const Convolution<double>> native_convolution(ConvPass, const ConvShape&);

}  // namespace tessera
