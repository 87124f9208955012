#include <memory>
#include <mutex>
#include <vector>

#include "tessera/layers/conv2d_cpu/convolution.h"
#include "tessera/layers/conv2d_cpu/depthwise3x3.h"
#include "tessera/layers/conv2d_cpu/gather.h"
#include "tessera/layers/conv2d_cpu/lanes.h"
#include "tessera/layers/conv2d_cpu/weight_grad.h"

namespace tessera {
namespace {

enum class Way { depthwise3x3, image_lanes, column_lanes, weight_grad, gather };

template <class T>
Way way_for(ConvPass pass, const ConvShape& shape) {
  if (depthwise3x3_applies(shape)) return Way::depthwise3x3;
  if (const auto lanes = lanes_for(pass, shape, sizeof(T)))
    return *lanes == LanesAre::images ? Way::image_lanes : Way::column_lanes;
  return pass == ConvPass::weight_grad ? Way::weight_grad : Way::gather;
}

template <class T>
size_t scratch_of(ConvPass pass, const ConvShape& shape, ConvForm form, int threads) {
  switch (way_for<T>(pass, shape)) {
    case Way::depthwise3x3:
      return depthwise3x3_scratch<T>(pass, shape);
    case Way::image_lanes:
      return lanes_scratch<T>(pass, shape, LanesAre::images, threads);
    case Way::column_lanes:
      return lanes_scratch<T>(pass, shape, LanesAre::columns, threads);
    case Way::weight_grad:
      return weight_grad_scratch<T>(shape, form, threads);
    case Way::gather:
      break;
  }
  return gather_scratch<T>(shape, pass == ConvPass::input_grad, form, threads);
}

template <class T>
std::unique_ptr<Convolution<T>> make(ConvPass pass, const ConvShape& shape, ConvForm form) {
  switch (way_for<T>(pass, shape)) {
    case Way::depthwise3x3:
      return make_depthwise3x3<T>(pass, shape);
    case Way::image_lanes:
      return make_lanes<T>(pass, shape, LanesAre::images);
    case Way::column_lanes:
      return make_lanes<T>(pass, shape, LanesAre::columns);
    case Way::weight_grad:
      return make_weight_grad<T>(shape, form);
    case Way::gather:
      break;
  }
  return make_gather<T>(shape, pass == ConvPass::input_grad, form);
}

Way way_for(ConvPass pass, const ConvShape& shape, size_t element) {
  return element == sizeof(float) ? way_for<float>(pass, shape) : way_for<double>(pass, shape);
}

bool gathers_forward(ConvPass pass, const ConvShape& shape, size_t element) {
  return way_for(pass, shape, element) == Way::gather && pass == ConvPass::forward;
}

}  // namespace

bool native_takes_prologue(ConvPass pass, const ConvShape& shape, size_t element) {
  if (way_for(pass, shape, element) == Way::weight_grad)
    return weight_grad_takes_prologue(shape, element);
  return gathers_forward(pass, shape, element);
}

bool native_packs_filters(ConvPass pass, const ConvShape& shape, size_t element) {
  return gathers_forward(pass, shape, element);
}

size_t native_conv_scratch(ConvPass pass, const ConvShape& shape, size_t element, int threads,
                           ConvForm form) {
  return element == sizeof(float) ? scratch_of<float>(pass, shape, form, threads)
                                  : scratch_of<double>(pass, shape, form, threads);
}

// One for each pass and shape that is in use: it never changes, so all nodes of that shape, in all
// programs, share it and its tables.
template <class T>
std::shared_ptr<const Convolution<T>> native_convolution(ConvPass pass, const ConvShape& shape,
                                                         ConvForm form) {
  struct Known {
    ConvPass pass;
    ConvShape shape;
    ConvForm form;
    std::weak_ptr<const Convolution<T>> convolution;
  };
  static std::mutex mutex;
  static auto* all = new std::vector<Known>;  // outlives all programs
  const std::lock_guard lock(mutex);
  std::erase_if(*all, [](const Known& known) { return known.convolution.expired(); });
  for (const Known& known : *all)
    if (known.pass == pass && known.shape == shape && known.form == form)
      if (auto found = known.convolution.lock()) return found;
  std::shared_ptr<const Convolution<T>> made = make<T>(pass, shape, form);
  all->push_back({pass, shape, form, made});
  return made;
}

template std::shared_ptr<const Convolution<float>> native_convolution(ConvPass, const ConvShape&,
                                                                      ConvForm);
template std::shared_ptr<const Convolution<double>> native_convolution(ConvPass, const ConvShape&,
                                                                       ConvForm);

}  // namespace tessera
