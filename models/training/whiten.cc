#include "tessera/models/training/whiten.h"

#include <algorithm>
#include <vector>

#include "tessera/engine/storage.h"
#include "tessera/layers/modules.h"

namespace tessera {
namespace {

constexpr int64_t kImages = 1024;

std::vector<float> normalised_images(const Dataset& data, int64_t count,
                                     const Normalization& normalization) {
  const ImageShape shape = data.shape();
  const auto bytes = static_cast<size_t>(shape.bytes());
  const auto channels = static_cast<size_t>(shape.channels);
  std::vector<uint8_t> image(bytes);
  std::vector<float> all;
  all.reserve(static_cast<size_t>(count) * bytes);
  for (int64_t i = 0; i < count; ++i) {
    data.read(i * data.count() / count, image.data());
    for (size_t k = 0; k < bytes; ++k)
      all.push_back((static_cast<float>(image[k]) / 255 - normalization.mean[k % channels]) /
                    normalization.std[k % channels]);
  }
  return all;
}

}  // namespace

void whiten(Store& store, const Dataset& train, const Normalization& normalization) {
  const std::string suffix = std::string(".") + Whitening::kFilters;
  for (Tensor filters : store.buffers()) {
    if (!filters.impl()->storage->name.ends_with(suffix)) continue;
    const int64_t count = std::min(kImages, train.count());
    const ImageShape image = train.shape();
    const std::vector<float> images = normalised_images(train, count, normalization);
    filters.assign(std::span<const float>(
        whitening_filters(images, {count, image.height, image.width, image.channels},
                          filters.shape()[1], Whitening::kEps)));
  }
}

}  // namespace tessera
