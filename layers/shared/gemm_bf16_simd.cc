// Products of bfloat16, summed in float32: the same bits with VDPBF16PS and without.
#include <algorithm>
#include <array>

#include "tessera/layers/shared/gemm_tiles_simd.h"
#include "tessera/layers/shared/transpose_simd.h"

namespace tessera {
namespace {

// Denormal numbers count as 0, as VDPBF16PS has it, while an object exists.
class FlushDenormals {
 public:
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON | kInputs); }
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  static constexpr unsigned kInputs = 0x40;  // denormals-are-zero: operands, too
  const unsigned before_;
};

// Not inlined, so that no operation moves out of the scope of FlushDenormals.
template <class Product, void (*kMultiply)(const Product&)>
__attribute__((noinline)) void within_scope(const Product& p) {
  kMultiply(p);
}

template <class Product, void (*kMultiply)(const Product&)>
void flushed(const Product& p) {
  const FlushDenormals flush;
  within_scope<Product, kMultiply>(p);
}

// VDPBF16PS flushes whatever the mode is, and add_sums() does so itself.
template <class Product, void (*kMultiply)(const Product&)>
constexpr auto kFlushing = kSplitsPairs<bfloat16> ? flushed<Product, kMultiply> : kMultiply;

#if defined(__AVX512F__)
// Returns up to 32 elements, then zeros; only zeros for null.
inline __m512i load_first(const bfloat16* from, int64_t count) {
  if (from == nullptr) return _mm512_setzero_si512();
  return count < 32 ? _mm512_maskz_loadu_epi16((1u << count) - 1, from) : _mm512_loadu_si512(from);
}

// Returns the pairs a[i], b[i] of 16 i from kFirst on.
template <int kFirst>
inline __m512i pairs_of(__m512i a, __m512i b) {
  alignas(64) static constexpr auto kOrder = [] {
    std::array<uint16_t, 32> order{};
    for (int i = 0; i < 32; ++i)
      order[i] = static_cast<uint16_t>(kFirst + i / 2 + (i % 2 ? 32 : 0));
    return order;
  }();
  return _mm512_permutex2var_epi16(a, _mm512_load_si512(kOrder.data()), b);
}

// Returns four of eight elements; g++ 12 warns of Intel's functions.
template <int kFirst>
inline __m256i half(__m512i x) {
  return __builtin_shufflevector(x, x, kFirst, kFirst + 1, kFirst + 2, kFirst + 3);
}
#endif

// to[2 i] = a[i], to[2 i + 1] = b[i]; zeros for null.
inline void interleave(const bfloat16* a, const bfloat16* b, int64_t count, bfloat16* to) {
  int64_t i = 0;
#if defined(__AVX512F__)
  const auto load = [&](const bfloat16* from, int64_t length) {
    return load_first(from ? from + i : nullptr, length);
  };
  for (; i + 32 <= count; i += 32) {
    const __m512i x = load(a, 32), y = load(b, 32);
    _mm512_storeu_si512(to + 2 * i, pairs_of<0>(x, y));
    _mm512_storeu_si512(to + 2 * i + 32, pairs_of<16>(x, y));
  }
  for (; i + 16 <= count; i += 16) {               // loads and stores with masks are slower
    const auto wide = [&](const bfloat16* from) {  // maskz with all lanes avoids a g++ 12 warning
      if (from == nullptr) return _mm512_setzero_si512();
      return _mm512_maskz_cvtepu16_epi32(
          0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
    };
    _mm512_storeu_si512(to + 2 * i,
                        _mm512_or_si512(wide(a), _mm512_maskz_slli_epi32(0xffff, wide(b), 16)));
  }
  if (const int64_t left = count - i; left > 0)
    _mm512_mask_storeu_epi32(to + 2 * i, static_cast<__mmask16>((1u << left) - 1),
                             pairs_of<0>(load(a, left), load(b, left)));
#else
  for (; i + 8 <= count; i += 8) {
    const auto wide = [&](const bfloat16* x) {
      return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i)));
    };
    __m256i pairs = a != nullptr ? wide(a) : _mm256_setzero_si256();
    if (b != nullptr) pairs = _mm256_or_si256(pairs, _mm256_slli_epi32(wide(b), 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 2 * i), pairs);
  }
  const bfloat16 zero{};
  for (; i < count; ++i)
    to[2 * i] = a != nullptr ? a[i] : zero, to[2 * i + 1] = b != nullptr ? b[i] : zero;
#endif
}

void copy_scattered(const bfloat16* const* from, int64_t points, int64_t length, bfloat16* to,
                    int64_t to_stride) {
  for (int64_t p = 0; p < points; p += 2, to += to_stride)
    interleave(from[p], p + 1 < points ? from[p + 1] : nullptr, length, to);
}

void copy_points(const bfloat16* from, int64_t from_stride, int64_t points, int64_t length,
                 bfloat16* to, int64_t to_stride) {
  for (int64_t p = 0; p < points; p += 2, from += 2 * from_stride, to += to_stride)
    interleave(from, p + 1 < points ? from + from_stride : nullptr, length, to);
}

void pack_micro_panels(const bfloat16* from, int64_t stride, int64_t points, int64_t count,
                       bfloat16* to) {
  constexpr int64_t kRows = kMicroPanelRows;
  const int64_t panel = (points + 1) / 2 * 2 * kRows;
#if defined(__AVX512F__)
  // Few points of all rows at once, so that whole lines are read and written.
  constexpr int64_t kPoints = 8;
  static_assert(kRows == 8);
  for (int64_t first = 0; first < points; first += kPoints)
    for (int64_t i = 0; i < count; i += 4 * kRows)
      for (int64_t p = first; p < std::min(points, first + kPoints); p += 2) {
        const bfloat16* const at = from + p * stride + i;
        const __m512i a = load_first(at, count - i),
                      b = load_first(p + 1 < points ? at + stride : nullptr, count - i);
        const __m512i pairs[] = {pairs_of<0>(a, b), pairs_of<16>(a, b)};
        const __m256i halves[] = {half<0>(pairs[0]), half<4>(pairs[0]), half<0>(pairs[1]),
                                  half<4>(pairs[1])};
        bfloat16* panels = to + i / kRows * panel + p * kRows;
        for (int q = 0; q < 4 && i + q * kRows < count; ++q, panels += panel)
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(panels), halves[q]);
      }
#else
  for (int64_t p = 0; p < points; p += 2, from += 2 * stride, to += 2 * kRows) {
    const bfloat16* next = p + 1 < points ? from + stride : nullptr;
    for (int64_t i = 0; i < count; i += kRows) {
      const int64_t rows = count - i < kRows ? count - i : kRows;
      bfloat16* pairs = to + i / kRows * panel;
      interleave(from + i, next != nullptr ? next + i : nullptr, rows, pairs);
      for (int64_t r = 2 * rows; r < 2 * kRows; ++r) pairs[r] = bfloat16{};
    }
  }
#endif
}

// Transposes pairs, each as 32 bits.
void pack_transposed(const bfloat16* from, int64_t stride, int64_t points, int64_t count,
                     int64_t width, bfloat16* to) {
  constexpr int64_t kSide = 8;
  const int64_t pairs = points / 2, whole = pairs / kSide * kSide, lines = count / kSide * kSide;
  for (int64_t j = 0; j < lines; j += kSide)
    for (int64_t p = 0; p < whole; p += kSide) {
      __m256 a[kSide];
      for (int64_t i = 0; i < kSide; ++i)
        a[i] = _mm256_castsi256_ps(
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + (j + i) * stride + 2 * p)));
      transpose(a);
      for (int64_t i = 0; i < kSide; ++i)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + ((p + i) * width + j) * 2),
                            _mm256_castps_si256(a[i]));
    }
  for (int64_t p = 0; 2 * p < points; ++p)
    for (int64_t j = p < whole ? lines : 0; j < width; ++j)
      for (int64_t e = 0; e < 2; ++e)
        to[(p * width + j) * 2 + e] =
            j < count && 2 * p + e < points ? from[j * stride + 2 * p + e] : bfloat16{};
}

}  // namespace

namespace TESSERA_ISA {
extern const GemmMicrokernelsOf<bfloat16> bf16_gemm_microkernels = {
    .lanes = Vector<float>::kLanes,
    .gather = kFlushing<ImplicitGemmProduct<bfloat16>, gather<bfloat16>>,
    .outer = kFlushing<OuterProduct<bfloat16>, outer<bfloat16>>,
    .pack_micro_panels = pack_micro_panels,
    .pack_transposed = pack_transposed,
    .copy_points = copy_points,
    .copy_scattered = copy_scattered,
    .dots = flushed<DotProduct<bfloat16>, dots<bfloat16>>,
    .gathers_panels = kGathersPanels<bfloat16>,
    .activates = kGatherActivates<bfloat16>};
}

}  // namespace tessera
