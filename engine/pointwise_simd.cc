// Evaluates the program block by block: every instruction is one vector loop over a block that
// stays in the first-level cache, so the cost of interpreting is shared by a few hundred elements.
#include "tessera/engine/pointwise_simd.h"

#include <cmath>

namespace tessera {
namespace {

constexpr int64_t kBlock = 256;

template <class T>
struct Evaluator {
  explicit Evaluator(const PointwiseRange& r) : range(r) {}  // the blocks stay uninitialised

  const PointwiseRange& range;
  const T* registers[kMaxScalarRegisters];
  alignas(64) T blocks[kMaxScalarRegisters][kBlock];

  // The block length that keeps the phase of the channel vectors the same from block to block.
  int64_t block_length() const {
    for (int k = 0; k < range.inputs; ++k) {
      int64_t period = range.broadcasts[k].period;
      if (range.broadcasts[k].repeat == 1 && period > 1 && period <= kBlock)
        return kBlock / period * period;
    }
    return kBlock;
  }

  bool direct(int k) const {
    return range.broadcasts[k].repeat == 1 && range.broadcasts[k].period >= range.total;
  }

  // True where one filled block serves every block of the range.
  bool steady(int k, int64_t length) const {
    int64_t period = range.broadcasts[k].period;
    return period == 1 || (range.broadcasts[k].repeat == 1 && length % period == 0);
  }

  void gather(int k, int64_t first, int64_t count) {
    auto* x = static_cast<const T*>(range.in[k]);
    auto [repeat, period] = range.broadcasts[k];
    T* to = blocks[k];
    if (period == 1) {
      for (int64_t i = 0; i < count; ++i) to[i] = x[0];
      return;
    }
    int64_t at = first / repeat % period, inside = first % repeat;
    for (int64_t i = 0; i < count;) {
      if (repeat == 1) {
        int64_t run = period - at < count - i ? period - at : count - i;
        for (int64_t j = 0; j < run; ++j) to[i + j] = x[at + j];
        i += run;
        at = 0;
        continue;
      }
      int64_t run = repeat - inside < count - i ? repeat - inside : count - i;
      for (int64_t j = 0; j < run; ++j) to[i + j] = x[at];
      i += run;
      inside = 0;
      if (++at == period) at = 0;
    }
  }

  // The result may overwrite one of its own inputs, element by element.
  template <class F>
  static void each(T* y, int64_t n, F f) {
#if !defined(__clang__)  // which asks at run time
#pragma GCC ivdep
#endif
    for (int64_t i = 0; i < n; ++i) y[i] = f(i);
  }

  void execute(const Instruction& in, T* y, int64_t n) {
    const T *a = registers[in.a], *b = registers[in.b], *c = registers[in.c];
    switch (in.op) {
      case ScalarOp::constant:
        return each(y, n, [v = static_cast<T>(in.value)](int64_t) { return v; });
      case ScalarOp::add:
        return each(y, n, [=](int64_t i) { return a[i] + b[i]; });
      case ScalarOp::sub:
        return each(y, n, [=](int64_t i) { return a[i] - b[i]; });
      case ScalarOp::mul:
        return each(y, n, [=](int64_t i) { return a[i] * b[i]; });
      case ScalarOp::div:
        return each(y, n, [=](int64_t i) { return a[i] / b[i]; });
      // A NaN in the first operand stays a NaN.
      case ScalarOp::max:
        return each(y, n, [=](int64_t i) { return a[i] <= b[i] ? b[i] : a[i]; });
      case ScalarOp::min:
        return each(y, n, [=](int64_t i) { return a[i] >= b[i] ? b[i] : a[i]; });
      case ScalarOp::pow:
        return each(y, n, [=](int64_t i) { return std::pow(a[i], b[i]); });
      case ScalarOp::greater:
        return each(y, n, [=](int64_t i) { return a[i] > b[i] ? T(1) : T(0); });
      case ScalarOp::select:
        return each(y, n, [=](int64_t i) { return a[i] != T(0) ? b[i] : c[i]; });
      case ScalarOp::neg:
        return each(y, n, [=](int64_t i) { return -a[i]; });
      case ScalarOp::abs:
        return each(y, n, [=](int64_t i) { return a[i] < T(0) ? -a[i] : a[i]; });
      case ScalarOp::exp:
        return each(y, n, [=](int64_t i) { return std::exp(a[i]); });
      case ScalarOp::log:
        return each(y, n, [=](int64_t i) { return std::log(a[i]); });
      case ScalarOp::sqrt:
        return each(y, n, [=](int64_t i) { return std::sqrt(a[i]); });
      case ScalarOp::tanh:
        return each(y, n, [=](int64_t i) { return std::tanh(a[i]); });
      case ScalarOp::erf:
        return each(y, n, [=](int64_t i) { return std::erf(a[i]); });
      case ScalarOp::sigmoid:
        return each(y, n, [=](int64_t i) { return T(1) / (T(1) + std::exp(-a[i])); });
    }
  }

  void run() {
    int64_t length = block_length();
    for (int k = 0; k < range.inputs; ++k) {
      registers[k] = blocks[k];
      if (!direct(k) && steady(k, length)) gather(k, range.first, length);
    }
    for (int j = 0; j < range.instructions; ++j) {
      int r = range.inputs + j;
      registers[r] = blocks[r];
      if (range.code[j].op == ScalarOp::constant) execute(range.code[j], blocks[r], kBlock);
    }
    for (int64_t done = 0; done < range.count; done += length) {
      int64_t n = range.count - done < length ? range.count - done : length;
      block(range.first + done, n, length, static_cast<T*>(range.out) + done);
    }
  }

  void block(int64_t first, int64_t n, int64_t length, T* out) {
    for (int k = 0; k < range.inputs; ++k) {
      if (direct(k))
        registers[k] = static_cast<const T*>(range.in[k]) + first;
      else if (!steady(k, length))
        gather(k, first, n);
    }
    if (range.instructions == 0) return copy(registers[0], out, n);
    int last = range.instructions - 1;
    for (int j = 0; j < last; ++j)
      if (range.code[j].op != ScalarOp::constant)
        execute(range.code[j], blocks[range.inputs + j], n);
    execute(range.code[last], out, n);
  }

  static void copy(const T* from, T* to, int64_t n) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
};

template <class T>
void evaluate(const PointwiseRange& range) {
  if (range.count <= 0) return;
  Evaluator<T> evaluator(range);
  evaluator.run();
}

}  // namespace

namespace TESSERA_ISA {
extern const PointwiseMicrokernels pointwise_microkernels;
const PointwiseMicrokernels pointwise_microkernels{&evaluate<float>, &evaluate<double>};
}  // namespace TESSERA_ISA

}  // namespace tessera
