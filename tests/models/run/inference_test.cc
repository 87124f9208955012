// docs/inference.md documents all that another program needs.
#include "tessera/models/run/inference.h"

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/store.h"
#include "tessera/layers/ops/image_normalize.h"
#include "tessera/models/config/network.h"
#include "tessera/runtime/random.h"

namespace tessera {
namespace {

constexpr int kHeight = 6, kWidth = 4, kImages = 2, kFilters = 5, kClasses = 3;

// Values in another program: row-major, of any shape.
struct Values {
  std::vector<int64_t> shape;
  std::vector<double> at;
};

// Computes numpy's transpose(0, 3, 1, 2).
Values to_channels_first(const Values& from) {
  const auto [n, h, w, c] = std::tuple(from.shape[0], from.shape[1], from.shape[2], from.shape[3]);
  Values to{{n, c, h, w}, std::vector<double>(from.at.size())};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t y = 0; y < h; ++y)
      for (int64_t x = 0; x < w; ++x)
        for (int64_t k = 0; k < c; ++k)
          to.at[static_cast<size_t>(((i * c + k) * h + y) * w + x)] =
              from.at[static_cast<size_t>(((i * h + y) * w + x) * c + k)];
  return to;
}

// Computes first_linear_to_torch() of docs/inference.md.
Values linear_to_channels_first(const Values& from, int64_t h, int64_t w, int64_t c) {
  Values to = to_channels_first({{from.shape[0], h, w, c}, from.at});
  to.shape = from.shape;
  return to;
}

// Computes PyTorch's conv2d: NCHW, OIHW, 3 x 3 filters, padding 1.
Values conv(const Values& x, const Values& filters, const Values& bias) {
  const int64_t n = x.shape[0], c = x.shape[1], h = x.shape[2], w = x.shape[3],
                o = filters.shape[0];
  Values y{{n, o, h, w}, {}};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t q = 0; q < o; ++q)
      for (int64_t r = 0; r < h; ++r)
        for (int64_t s = 0; s < w; ++s) {
          double sum = bias.at[static_cast<size_t>(q)];
          for (int64_t k = 0; k < c; ++k)
            for (int64_t u = 0; u < 3; ++u)
              for (int64_t v = 0; v < 3; ++v) {
                const int64_t a = r + u - 1, b = s + v - 1;
                if (a < 0 || b < 0 || a >= h || b >= w) continue;
                sum += x.at[static_cast<size_t>(((i * c + k) * h + a) * w + b)] *
                       filters.at[static_cast<size_t>(((q * c + k) * 3 + u) * 3 + v)];
              }
          y.at.push_back(sum);
        }
  return y;
}

void batch_norm_and_relu(Values& x, std::map<std::string, Values>& of) {
  const int64_t c = x.shape[1], plane = x.shape[2] * x.shape[3];
  for (size_t i = 0; i < x.at.size(); ++i) {
    const auto k = static_cast<size_t>(static_cast<int64_t>(i) / plane % c);
    const double y = (x.at[i] - of["running_mean"].at[k]) /
                         std::sqrt(of["running_var"].at[k] + 1e-5) * of["gamma"].at[k] +
                     of["beta"].at[k];
    x.at[i] = std::max(y, 0.0);
  }
}

Values linear(const Values& x, const Values& w, const Values& b) {
  const int64_t n = x.shape[0], o = w.shape[0], in = w.shape[1];
  Values y{{n, o}, {}};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t q = 0; q < o; ++q) {
      double sum = b.at[static_cast<size_t>(q)];
      for (int64_t k = 0; k < in; ++k)
        sum += x.at[static_cast<size_t>(i * in + k)] * w.at[static_cast<size_t>(q * in + k)];
      y.at.push_back(sum);
    }
  return y;
}

Config network() {
  return parse_config(
      "model: {classes: 3, layers: [{conv: {filters: 5, kernel: 3, padding: 1}}, batch_norm, relu, "
      "flatten, {linear: {units: 3}}]}\ndata: {name: image_folder, image_size: 6}\n",
      "C");
}

TEST(Inference, AnotherProgramComputesTheSameWithTheMappingOfTheDocs) {
  const Config config = network();
  Store store(7);
  const auto model = make_network(config, {kHeight, kWidth, 3}, store);
  RandomSequence random(3, 0);
  Values filters, filter_bias, weight, bias;
  std::map<std::string, Values> norm;
  Tensors all = store.parameters();
  all.insert(all.end(), store.buffers().begin(), store.buffers().end());
  for (const Tensor& tensor : all) {
    std::vector<float> values(static_cast<size_t>(tensor.shape().elements()));
    for (float& value : values) value = 0.1f + static_cast<float>(random.below(1000)) / 1000;
    Tensor(tensor).assign(std::span<const float>(values));
    const std::string& name = tensor.impl()->storage->name;
    const Values seen{{tensor.shape().begin(), tensor.shape().end()},
                      {values.begin(), values.end()}};
    const std::string part = name.substr(name.rfind('.') + 1);
    if (part == "weight")
      (seen.shape.size() == 4 ? filters : weight) = seen;
    else if (part == "bias")
      (seen.shape[0] == kFilters ? filter_bias : bias) = seen;
    else
      norm[part] = seen;
  }
  std::vector<uint8_t> pixels(size_t{kImages} * kHeight * kWidth * 3);
  for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(random.bits());

  const Json about = Json::parse(
      inference_json(config, {kHeight, kWidth, 3}, {{0.4f, 0.5f, 0.6f}, {0.2f, 0.3f, 0.25f}}, {})
          .text());
  std::vector<double> mean, std;
  for (const Json& value : about["normalization"]["mean"].items()) mean.push_back(value.number());
  for (const Json& value : about["normalization"]["std"].items()) std.push_back(value.number());

  Values x{{kImages, kHeight, kWidth, 3}, {}};
  for (size_t i = 0; i < pixels.size(); ++i)
    x.at.push_back((pixels[i] / 255.0 - mean[i % 3]) / std[i % 3]);
  Values y = conv(to_channels_first(x), to_channels_first(filters), filter_bias);
  batch_norm_and_relu(y, norm);
  const Values theirs =
      linear(y, linear_to_channels_first(weight, kHeight, kWidth, kFilters), bias);

  const NoGradScope no_grad;
  const TrainingScope evaluation(false);
  Tensor images = from_bytes({kImages, kHeight, kWidth, 3}, DType::u8, pixels.data());
  const std::vector<float> ours = (*model)(image_normalize(images, {mean, std})).to_vector<float>();
  ASSERT_EQ(ours.size(), size_t{kImages * kClasses});
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_NEAR(ours[i], theirs.at[i], 1e-4 * std::abs(theirs.at[i])) << i;
  EXPECT_EQ(about["weights"].text(), R"({"conv2d":"OHWI","linear":"OI","flatten":"HWC"})");
}

TEST(Inference, TheTextOfACheckpointHasTheLengthThatTheConfigurationDecides) {
  const Config config = network();
  const ImageShape image{kHeight, kWidth, 3};
  const Normalization normalization{{0.1f, 0.2f, 0.3f}, {1.f, 1.f, 1.f}};
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{},
        {"a", "b", "c"},
        std::vector<std::string>(3, std::string(5000, 'x'))}) {
    const std::string text =
        padded_inference(inference_json(config, image, normalization, names), config);
    EXPECT_EQ(Json(text).text().size() - 2, inference_capacity(config));
    const auto told = normalization_in(text);
    ASSERT_TRUE(told);
    EXPECT_EQ(told->mean, normalization.mean);
    EXPECT_EQ(told->std, normalization.std);
    EXPECT_EQ(text.find("xxx"), std::string::npos);
    const bool fit = names.size() == 3 && names[0] == "a";
    EXPECT_EQ(text.find("\"a\"") != std::string::npos, fit);
    EXPECT_EQ(class_names_in(text), fit ? names : std::vector<std::string>());
    EXPECT_EQ(input_in(text), image);
  }
  EXPECT_FALSE(normalization_in(""));
  Config resized = network();
  for (const int resize : {0, 80})
    for (const ImageShape& image : {ImageShape{32, 64, 3}, {64, 32, 3}, {64, 64, 3}}) {
      resized.data.resize = resize;
      EXPECT_EQ(resize_in(inference_json(resized, image, {}, {}).text()), resize);
    }
  EXPECT_EQ(
      resize_in(
          "{\"input\": {\"height\": 4, \"width\": 4, \"picture\": {\"resize\": {\"cover\": []}}}}"),
      0);
  EXPECT_FALSE(input_in(""));
  EXPECT_FALSE(input_in("{\"input\": {\"height\": 4, \"width\": 0, \"channels\": 3}}"));
  EXPECT_TRUE(class_names_in("{").empty());
  EXPECT_EQ(name_in_inference("ant \xe9"), "ant \xef\xbf\xbd");
  EXPECT_FALSE(normalization_in("{\"normalization\": {\"mean\": [1], \"std\": null}}"));
}

TEST(Inference, WhatIsKnownBeforeTheDataAreOpened) {
  Config config = network();
  config.data.name = "cifar10";
  const Json cifar = planned_inference(config, {32, 32, 3});
  EXPECT_EQ(cifar["normalization"]["mean"].text(), "[0.4914,0.4822,0.4465]");
  EXPECT_EQ(cifar["output"]["class_names"].items()[0].string(), "airplane");
  config.data.name = "image_folder";
  EXPECT_EQ(planned_inference(config, {32, 32, 3})["normalization"]["mean"].text(), "null");
  config.data.mean = config.data.std = {0.5, 0.5, 0.25};
  EXPECT_EQ(planned_inference(config, {32, 32, 3})["normalization"]["mean"].text(),
            "[0.5,0.5,0.25]");
}

}  // namespace
}  // namespace tessera
