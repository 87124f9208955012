// Trains two networks on images in memory, with different settings, using only the core.
#include <cstdio>

#include <tessera/core.h>

using namespace tessera;

namespace {

constexpr int kImages = 64, kSide = 8;

// Returns the number of images that the last step classified correctly.
double trained(const Settings& with) {
  const SettingsScope settings(with);
  // Rows 2c and 2c + 1 are bright in images of class c.
  std::vector<float> pixels(size_t{kImages} * kSide * kSide);
  std::vector<int32_t> classes(kImages);
  for (size_t i = 0; i < pixels.size(); ++i) {
    const size_t image = i / (kSide * kSide), row = i / kSide % kSide;
    classes[image] = static_cast<int32_t>(image % 4);
    pixels[i] = row / 2 == image % 4 ? 1.0f : static_cast<float>(i * 37 % 11) / 11;
  }
  Store store(/*seed=*/1);
  const Conv2d conv(store, "conv", {.in = 1, .out = 8, .kernel = 3, .padding = 1});
  const Linear fc(store, "fc", {.in = 8 * 4 * 4, .out = 4});
  Sgd sgd(store, store.parameters(), {.momentum = 0.9});
  auto step = compile([&](const Tensor& images, const Tensor& labels, const Tensor& lr) {
    const TrainingScope training;
    const Tensor logits = fc(flatten(max_pool2d(relu(conv(images)), {.kernel = 2})));
    sgd.step(gradients(cross_entropy(logits, labels), store.parameters()), lr);
    return top_k_correct(logits, labels);
  });
  const Tensor images = from_vector<float>({kImages, kSide, kSide, 1}, pixels);
  const Tensor labels = from_vector<int32_t>({kImages}, classes);
  double right = 0;
  for (int i = 0; i < 60; ++i) right = step(images, labels, scalar(0.05)).item<double>();
  return right;
}

}  // namespace

int main() {
  const double one = trained({.threads = 1}), two = trained({.threads = 2});
  std::printf("%g and %g of %d\n", one, two, kImages);
}
