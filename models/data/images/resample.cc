#include "tessera/models/data/images/resample.h"

#include <algorithm>
#include <cmath>

namespace tessera {

namespace {

constexpr int kBits = 22;
constexpr int32_t kHalf = 1 << (kBits - 1);

// Inline, and called by a lambda instead of passed: without -O3, g++ calls a function that is
// passed.
inline uint8_t from_fixed_point(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kBits, 0, 255));
}

template <int kChannels>
void shrink_line(const uint8_t* pixels, const int32_t* weights, int count, uint8_t* out) {
  int32_t sums[kChannels];
  for (int c = 0; c < kChannels; ++c) sums[c] = kHalf;
  for (int k = 0; k < count; ++k)
    for (int c = 0; c < kChannels; ++c) sums[c] += weights[k] * pixels[kChannels * k + c];
  for (int c = 0; c < kChannels; ++c) out[c] = from_fixed_point(sums[c]);
}

}  // namespace

void Resampler::Table::fill(const ResampleAxis& wanted) {
  if (wanted == axis) return;
  axis = wanted;
  spans.clear();
  weights.clear();
  double scale = axis.size / axis.total, reach = std::max(scale, 1.0);
  double low = std::floor(axis.begin), offset = axis.begin - low;
  int most = static_cast<int>(std::ceil(offset + axis.size - 1e-9));
  for (int i = axis.first; i < axis.first + axis.count; ++i) {
    double centre = offset + (i + 0.5) * scale, sum = 0;
    int begin = std::max(static_cast<int>(centre - reach + 0.5), 0);
    int end = std::min(static_cast<int>(centre + reach + 0.5), most);
    auto weight = [&](int k) {
      return std::max(0.0, 1 - std::abs((k - centre + 0.5) * (1 / reach)));
    };
    for (int k = begin; k < end; ++k) sum += weight(k);
    spans.push_back({static_cast<int>(low) + begin, end - begin, static_cast<int>(weights.size())});
    for (int k = begin; k < end; ++k)
      weights.push_back(static_cast<int32_t>(weight(k) / sum * (1 << kBits) + 0.5));
  }
}

void Resampler::reserve(int largest_side, int channels, int out_height, int out_width) {
  for (auto [table, count] : {std::pair{&rows_, out_height}, std::pair{&columns_, out_width}}) {
    table->spans.reserve(static_cast<size_t>(count));
    // Each source pixel is under at most two triangles, or each result reads two.
    table->weights.reserve(2 * static_cast<size_t>(largest_side) + 3 * static_cast<size_t>(count));
  }
  line_.reserve(static_cast<size_t>(out_width) * static_cast<size_t>(channels));
  sums_.reserve(line_.capacity() * static_cast<size_t>(out_height));
}

void Resampler::start(const ResampleAxis& rows, const ResampleAxis& columns, int channels,
                      uint8_t* out) {
  rows_.fill(rows);
  columns_.fill(columns);
  channels_ = channels;
  out_ = out;
  first_open_ = 0;
  last_row_ = rows_.spans.back().begin + rows_.spans.back().count - 1;
  line_.resize(static_cast<size_t>(columns.count) * static_cast<size_t>(channels));
  sums_.assign(line_.size() * static_cast<size_t>(rows.count), kHalf);
}

void Resampler::row(int y, const uint8_t* pixels) {
  if (y < rows_.spans[0].begin || y > last_row_) return;
  uint8_t* to = line_.data();
  for (const Span& span : columns_.spans) {
    const uint8_t* from = pixels + int64_t{span.begin} * channels_;
    const int32_t* weights = columns_.weights.data() + span.weights;
    if (channels_ == 3)
      shrink_line<3>(from, weights, span.count, to);
    else
      for (int c = 0; c < channels_; ++c) {
        int32_t sum = kHalf;
        for (int k = 0; k < span.count; ++k) sum += weights[k] * from[k * channels_ + c];
        to[c] = from_fixed_point(sum);
      }
    to += channels_;
  }
  // Skips the result rows that end above y: spans begin and end in rising order.
  const int count = static_cast<int>(rows_.spans.size());
  auto span_of = [&](int i) -> const Span& { return rows_.spans[static_cast<size_t>(i)]; };
  while (span_of(first_open_).begin + span_of(first_open_).count <= y) ++first_open_;
  for (int i = first_open_; i < count && span_of(i).begin <= y; ++i) {
    const Span& span = span_of(i);
    if (y >= span.begin + span.count) continue;
    int32_t weight = rows_.weights[static_cast<size_t>(span.weights + y - span.begin)];
    int32_t* sums = sums_.data() + static_cast<size_t>(i) * line_.size();
    for (size_t k = 0; k < line_.size(); ++k) sums[k] += weight * line_[k];
  }
}

void Resampler::finish() {
  std::transform(sums_.begin(), sums_.end(), out_,
                 [](int32_t sum) { return from_fixed_point(sum); });
}

size_t Resampler::bytes() const {
  size_t bytes = line_.capacity() + sums_.capacity() * sizeof(int32_t);
  for (const Table* table : {&rows_, &columns_})
    bytes += table->spans.capacity() * sizeof(Span) + table->weights.capacity() * sizeof(int32_t);
  return bytes;
}

void resize_image(Resampler& resampler, const ImageShape& from, const Box& part, const uint8_t* in,
                  const ImageShape& to, uint8_t* out) {
  resampler.start({double(part.y), double(part.height), to.height, 0, to.height},
                  {double(part.x), double(part.width), to.width, 0, to.width}, from.channels, out);
  for (int y = part.y; y <= resampler.last_row(); ++y)
    resampler.row(y, in + int64_t{y} * from.width * from.channels);
  resampler.finish();
}

}  // namespace tessera
