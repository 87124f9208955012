#include "tessera/models/data/moments.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tessera {

void Moments::add(const uint8_t* bytes, int64_t count) {
  const size_t channels = sums_.size();
  for (int64_t i = 0; i < count;)
    for (size_t c = 0; c < channels; ++c, ++i) {
      sums_[c] += bytes[i];
      squares_[c] += int64_t{bytes[i]} * bytes[i];
    }
  pixels_ += count / static_cast<int64_t>(channels);
}

void Moments::add(const Moments& other) {
  for (size_t c = 0; c < sums_.size(); ++c) {
    sums_[c] += other.sums_[c];
    squares_[c] += other.squares_[c];
  }
  pixels_ += other.pixels_;
}

Normalization Moments::normalization() const {
  const auto rounded = [](double value) {
    return static_cast<float>(std::round(value * 1e4) / 1e4);
  };
  const auto pixels = static_cast<double>(std::max<int64_t>(pixels_, 1));
  Normalization result;
  for (size_t c = 0; c < sums_.size(); ++c) {
    const double mean = static_cast<double>(sums_[c]) / pixels / 255;
    const double square = static_cast<double>(squares_[c]) / pixels / (255.0 * 255);
    const float deviation = rounded(std::sqrt(std::max(0.0, square - mean * mean)));
    result.mean.push_back(rounded(mean));
    result.std.push_back(deviation > 0 ? deviation : 1.f);
  }
  return result;
}

Normalization measured_normalization(const Dataset& data, int threads) {
  const int64_t stride = measuring_stride(data.count());
  std::atomic<int64_t> next = 0;
  std::mutex mutex;  // guards all below
  Moments sum(data.channels());
  int64_t failed = -1;  // the first image that could not be read
  std::exception_ptr error;
  const auto work = [&] {
    Moments own(data.channels());
    std::vector<uint8_t> image(static_cast<size_t>(data.shape().bytes()));
    for (int64_t i; (i = stride * next++) < data.count();) {
      try {
        data.read(i, image.data());
        own.add(image.data(), data.shape().bytes());
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (failed < 0 || i < failed) failed = i, error = std::current_exception();
        next = data.count();  // other threads finish their current images
      }
    }
    const std::lock_guard lock(mutex);
    sum.add(own);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  if (error) std::rethrow_exception(error);
  return sum.normalization();
}

std::string normalization_text(const Normalization& normalization) {
  return fmt::format("mean [{}], std [{}]", fmt::join(normalization.mean, ", "),
                     fmt::join(normalization.std, ", "));
}

double shortest(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  double result = 0;
  std::from_chars(text, end, result);
  return result;
}

}  // namespace tessera
