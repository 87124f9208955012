#include "tessera/layers/conv2d/cpu/patches.h"

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

// Calls run(column, element, length) for each stretch of consecutive elements within columns
// [begin, end) of a filter row that lies in the image, left to right; j is the output column,
// `element` counts from the start of the image's row.
template <class Run>
void for_runs(const ConvShape& s, int64_t group, int64_t j, int64_t begin, int64_t end, Run run) {
  const int64_t channels = s.c / s.groups, left = j * s.stride_w - s.pad_w;
  if (s.groups == 1 && s.dilation_w == 1) {  // the taps of a row lie next to each other
    const int64_t shift = left * s.c;
    const int64_t first = std::max(begin, -shift), last = std::min(end, s.w * s.c - shift);
    if (first < last) run(first, first + shift, last - first);
    return;
  }
  for (int64_t column = begin; column < end;) {
    const int64_t v = column / channels, next = std::min((v + 1) * channels, end);
    const int64_t x = left + v * s.dilation_w;
    if (x >= 0 && x < s.w)
      run(column, x * s.c + group * channels + column % channels, next - column);
    column = next;
  }
}

// Calls visit(row of x or -1 where it lies outside, j, begin, end) for each pixel of the part and
// each filter row that its columns touch; begin and end count within the filter row.
template <class Visit>
void for_filter_rows(const ConvShape& s, const PatchPart& part, Visit visit) {
  const int64_t out_h = s.out_h(), out_w = s.out_w(), length = s.kw * (s.c / s.groups);
  int64_t j = part.first % out_w, i = part.first / out_w % out_h,
          image = part.first / out_w / out_h;
  for (int64_t p = 0; p < part.count; ++p) {
    for (int64_t u = part.begin / length; u * length < part.end; ++u) {
      const int64_t row = i * s.stride_h - s.pad_h + u * s.dilation_h;
      visit(row < 0 || row >= s.h ? -1 : image * s.h + row, j,
            std::max<int64_t>(0, part.begin - u * length), std::min(length, part.end - u * length));
    }
    if (++j < out_w) continue;
    j = 0;
    if (++i == out_h) i = 0, ++image;
  }
}

}  // namespace

template <class T>
void pack_patches(const ConvShape& s, const PatchPart& part, const T* x, T* to) {
  for_filter_rows(s, part, [&](int64_t row, int64_t j, int64_t begin, int64_t end) {
    int64_t done = begin;
    auto zero_until = [&](int64_t column) {
      if (done < column) std::memset(to + done - begin, 0, (column - done) * sizeof(T));
    };
    if (row >= 0)
      for_runs(s, part.group, j, begin, end, [&](int64_t column, int64_t element, int64_t length) {
        zero_until(column);
        std::memcpy(to + column - begin, x + row * s.w * s.c + element, length * sizeof(T));
        done = column + length;
      });
    zero_until(end);
    to += end - begin;
  });
}

template <class T>
void add_patches(const ConvShape& s, const PatchPart& part, const T* from, T* dx) {
  for_filter_rows(s, part, [&](int64_t row, int64_t j, int64_t begin, int64_t end) {
    if (row >= 0)
      for_runs(s, part.group, j, begin, end, [&](int64_t column, int64_t element, int64_t length) {
        T* sum = dx + row * s.w * s.c + element;
        for (int64_t k = 0; k < length; ++k) sum[k] += from[column - begin + k];
      });
    from += end - begin;
  });
}

#define TESSERA_PATCHES(T)                                                      \
  template void pack_patches(const ConvShape&, const PatchPart&, const T*, T*); \
  template void add_patches(const ConvShape&, const PatchPart&, const T*, T*);
TESSERA_PATCHES(float)
TESSERA_PATCHES(double)

}  // namespace tessera
