// The scalar programs that there is compiled code for, on CPUs and GPUs: those of the networks of
// the zoo, which a test finds in their training steps, and a few more. The others are interpreted.
#pragma once

#include <initializer_list>
#include <iterator>
#include <numbers>

#include "tessera/engine/scalar_program.h"

namespace tessera {

struct KnownProgram {
  static constexpr int kLongest = 16;
  int inputs, length = 0;
  Instruction code[kLongest];

  constexpr KnownProgram(int inputs, std::initializer_list<Instruction> from)
      : inputs(inputs), code{} {
    for (const Instruction& instruction : from) code[length++] = instruction;
  }
};

constexpr Instruction known_value(double v) { return {ScalarOp::constant, 0, 0, 0, v}; }

inline constexpr KnownProgram kKnownPrograms[] = {
    // batch_norm_input_grad
    {6,
     {{ScalarOp::sub, 1, 2},
      {ScalarOp::mul, 6, 3},
      {ScalarOp::sub, 0, 7},
      {ScalarOp::sub, 8, 4},
      {ScalarOp::mul, 9, 5}}},
    // batch_norm+relu
    {5,
     {{ScalarOp::sub, 0, 1},
      {ScalarOp::mul, 5, 2},
      {ScalarOp::mul, 6, 3},
      {ScalarOp::add, 7, 4},
      known_value(0),
      {ScalarOp::max, 8, 9}}},
    // relu_grad
    {2, {known_value(0), {ScalarOp::select, 0, 1, 2}}},
    // relu_grad, of a batch_norm+relu that is computed again
    {6,
     {{ScalarOp::sub, 1, 2},
      {ScalarOp::mul, 6, 3},
      {ScalarOp::mul, 7, 4},
      {ScalarOp::add, 8, 5},
      known_value(0),
      {ScalarOp::max, 9, 10},
      known_value(0),
      {ScalarOp::select, 11, 0, 12}}},
    // relu6_grad, of a batch_norm+relu6 that is computed again
    {6,
     {{ScalarOp::sub, 1, 2},
      {ScalarOp::mul, 6, 3},
      {ScalarOp::mul, 7, 4},
      {ScalarOp::add, 8, 5},
      known_value(0),
      {ScalarOp::max, 9, 10},
      known_value(6),
      {ScalarOp::min, 11, 12},
      known_value(0),
      known_value(6),
      {ScalarOp::sub, 15, 13},
      {ScalarOp::select, 13, 0, 14},
      {ScalarOp::select, 16, 17, 14}}},
    // add+relu_grad, of a batch_norm+relu that is computed again
    {7,
     {{ScalarOp::sub, 2, 3},
      {ScalarOp::mul, 7, 4},
      {ScalarOp::mul, 8, 5},
      {ScalarOp::add, 9, 6},
      known_value(0),
      {ScalarOp::max, 10, 11},
      {ScalarOp::add, 0, 1},
      known_value(0),
      {ScalarOp::select, 12, 13, 14}}},
    // add+relu_grad, of a batch_norm+add+relu that is computed again
    {8,
     {{ScalarOp::sub, 2, 3},
      {ScalarOp::mul, 8, 4},
      {ScalarOp::mul, 9, 5},
      {ScalarOp::add, 10, 6},
      {ScalarOp::add, 11, 7},
      known_value(0),
      {ScalarOp::max, 12, 13},
      {ScalarOp::add, 0, 1},
      known_value(0),
      {ScalarOp::select, 14, 15, 16}}},
    // add+relu_grad, of a batch_norm+batch_norm+add+relu that is computed again
    {12,
     {{ScalarOp::sub, 2, 3},
      {ScalarOp::mul, 12, 4},
      {ScalarOp::mul, 13, 5},
      {ScalarOp::add, 14, 6},
      {ScalarOp::sub, 7, 8},
      {ScalarOp::mul, 16, 9},
      {ScalarOp::mul, 17, 10},
      {ScalarOp::add, 18, 11},
      {ScalarOp::add, 19, 15},
      known_value(0),
      {ScalarOp::max, 20, 21},
      {ScalarOp::add, 0, 1},
      known_value(0),
      {ScalarOp::select, 22, 23, 24}}},
    // silu_grad, of a batch_norm that is computed again
    {6,
     {{ScalarOp::sub, 1, 2},
      {ScalarOp::mul, 6, 3},
      {ScalarOp::mul, 7, 4},
      {ScalarOp::add, 8, 5},
      {ScalarOp::sigmoid, 9},
      known_value(1),
      {ScalarOp::sub, 11, 10},
      {ScalarOp::mul, 9, 12},
      known_value(1),
      {ScalarOp::add, 13, 14},
      {ScalarOp::mul, 10, 15},
      {ScalarOp::mul, 0, 16}}},
    // hard_swish_grad, of a batch_norm that is computed again
    {6,
     {{ScalarOp::sub, 1, 2},
      {ScalarOp::mul, 6, 3},
      {ScalarOp::mul, 7, 4},
      {ScalarOp::add, 8, 5},
      {ScalarOp::abs, 9},
      known_value(3),
      {ScalarOp::greater, 11, 10},
      known_value(0.5),
      known_value(1.0 / 3),
      {ScalarOp::mul, 9, 14},
      {ScalarOp::add, 15, 13},
      known_value(0),
      {ScalarOp::greater, 9, 17},
      {ScalarOp::select, 12, 16, 18},
      {ScalarOp::mul, 0, 19}}},
    // add+hard_swish_grad, of a batch_norm that is computed again
    {7,
     {{ScalarOp::sub, 2, 3},
      {ScalarOp::mul, 7, 4},
      {ScalarOp::mul, 8, 5},
      {ScalarOp::add, 9, 6},
      {ScalarOp::add, 0, 1},
      {ScalarOp::abs, 10},
      known_value(3),
      {ScalarOp::greater, 13, 12},
      known_value(0.5),
      known_value(1.0 / 3),
      {ScalarOp::mul, 10, 16},
      {ScalarOp::add, 17, 15},
      known_value(0),
      {ScalarOp::greater, 10, 19},
      {ScalarOp::select, 14, 18, 20},
      {ScalarOp::mul, 11, 21}}},
    // add+relu_grad
    {3, {{ScalarOp::add, 0, 1}, known_value(0), {ScalarOp::select, 2, 3, 4}}},
    // batch_norm+add+relu
    {6,
     {{ScalarOp::sub, 0, 1},
      {ScalarOp::mul, 6, 2},
      {ScalarOp::mul, 7, 3},
      {ScalarOp::add, 8, 4},
      {ScalarOp::add, 9, 5},
      known_value(0),
      {ScalarOp::max, 10, 11}}},
    // batch_norm_input_grad+add
    {7,
     {{ScalarOp::sub, 1, 2},
      {ScalarOp::mul, 7, 3},
      {ScalarOp::sub, 0, 8},
      {ScalarOp::sub, 9, 4},
      {ScalarOp::mul, 10, 5},
      {ScalarOp::add, 6, 11}}},
    // bias
    {2, {{ScalarOp::add, 0, 1}}},
    // batch_norm+relu6
    {5,
     {{ScalarOp::sub, 0, 1},
      {ScalarOp::mul, 5, 2},
      {ScalarOp::mul, 6, 3},
      {ScalarOp::add, 7, 4},
      known_value(0),
      {ScalarOp::max, 8, 9},
      known_value(6),
      {ScalarOp::min, 10, 11}}},
    // relu6_grad
    {2,
     {known_value(0),
      known_value(6),
      {ScalarOp::sub, 3, 0},
      {ScalarOp::select, 0, 1, 2},
      {ScalarOp::select, 4, 5, 2}}},
    // bias+relu
    {2, {{ScalarOp::add, 0, 1}, known_value(0), {ScalarOp::max, 2, 3}}},
    // batch_norm+batch_norm+add+relu
    {10,
     {{ScalarOp::sub, 0, 1},
      {ScalarOp::mul, 10, 2},
      {ScalarOp::mul, 11, 3},
      {ScalarOp::add, 12, 4},
      {ScalarOp::sub, 5, 6},
      {ScalarOp::mul, 14, 7},
      {ScalarOp::mul, 15, 8},
      {ScalarOp::add, 16, 9},
      {ScalarOp::add, 17, 13},
      known_value(0),
      {ScalarOp::max, 18, 19}}},
    // batch_norm+add
    {6,
     {{ScalarOp::sub, 0, 1},
      {ScalarOp::mul, 6, 2},
      {ScalarOp::mul, 7, 3},
      {ScalarOp::add, 8, 4},
      {ScalarOp::add, 9, 5}}},
    // add+add
    {3, {{ScalarOp::add, 1, 0}, {ScalarOp::add, 3, 2}}},
    // bias+sigmoid
    {2, {{ScalarOp::add, 0, 1}, {ScalarOp::sigmoid, 2}}},
    // batch_norm+add+relu, the norm added to what was there
    {6,
     {{ScalarOp::sub, 0, 1},
      {ScalarOp::mul, 6, 2},
      {ScalarOp::mul, 7, 3},
      {ScalarOp::add, 8, 4},
      {ScalarOp::add, 5, 9},
      known_value(0),
      {ScalarOp::max, 10, 11}}},
    // sigmoid_grad
    {2, {known_value(1), {ScalarOp::sub, 2, 0}, {ScalarOp::mul, 0, 3}, {ScalarOp::mul, 1, 4}}},
    // hard_swish
    {1,
     {known_value(1.0 / 6),
      known_value(3),
      {ScalarOp::add, 0, 2},
      known_value(0),
      {ScalarOp::max, 3, 4},
      known_value(6),
      {ScalarOp::min, 5, 6},
      {ScalarOp::mul, 7, 1},
      {ScalarOp::mul, 0, 8}}},
    // bias+hard_sigmoid
    {2,
     {{ScalarOp::add, 0, 1},
      known_value(1.0 / 6),
      known_value(3),
      {ScalarOp::add, 2, 4},
      known_value(0),
      {ScalarOp::max, 5, 6},
      known_value(6),
      {ScalarOp::min, 7, 8},
      {ScalarOp::mul, 9, 3}}},
    // hard_swish_grad
    {2,
     {{ScalarOp::abs, 0},
      known_value(3),
      {ScalarOp::greater, 3, 2},
      known_value(0.5),
      known_value(1.0 / 3),
      {ScalarOp::mul, 0, 6},
      {ScalarOp::add, 7, 5},
      known_value(0),
      {ScalarOp::greater, 0, 9},
      {ScalarOp::select, 4, 8, 10},
      {ScalarOp::mul, 1, 11}}},
    // hard_sigmoid_grad
    {2,
     {known_value(1),
      {ScalarOp::greater, 2, 0},
      known_value(0),
      {ScalarOp::greater, 0, 4},
      {ScalarOp::mul, 5, 3},
      known_value(1.0 / 6),
      {ScalarOp::mul, 1, 7},
      known_value(0),
      {ScalarOp::select, 6, 8, 9}}},
    // add+hard_swish_grad
    {3,
     {{ScalarOp::add, 0, 1},
      {ScalarOp::abs, 2},
      known_value(3),
      {ScalarOp::greater, 5, 4},
      known_value(0.5),
      known_value(1.0 / 3),
      {ScalarOp::mul, 2, 8},
      {ScalarOp::add, 9, 7},
      known_value(0),
      {ScalarOp::greater, 2, 11},
      {ScalarOp::select, 6, 10, 12},
      {ScalarOp::mul, 3, 13}}},
    // silu
    {1, {{ScalarOp::sigmoid, 0}, {ScalarOp::mul, 0, 1}}},
    // batch_norm, times what dropout keeps of the sample, +add
    {7,
     {{ScalarOp::sub, 0, 1},
      {ScalarOp::mul, 7, 2},
      {ScalarOp::mul, 8, 3},
      {ScalarOp::add, 9, 4},
      {ScalarOp::mul, 10, 5},
      {ScalarOp::add, 11, 6}}},
    // silu_grad
    {2,
     {{ScalarOp::sigmoid, 0},
      known_value(1),
      {ScalarOp::sub, 3, 2},
      {ScalarOp::mul, 0, 4},
      known_value(1),
      {ScalarOp::add, 5, 6},
      {ScalarOp::mul, 2, 7},
      {ScalarOp::mul, 1, 8}}},
    // add+silu_grad
    {3,
     {{ScalarOp::add, 0, 1},
      {ScalarOp::sigmoid, 2},
      known_value(1),
      {ScalarOp::sub, 5, 4},
      {ScalarOp::mul, 2, 6},
      known_value(1),
      {ScalarOp::add, 7, 8},
      {ScalarOp::mul, 4, 9},
      {ScalarOp::mul, 3, 10}}},
    // gelu
    {1,
     {known_value(1 / std::numbers::sqrt2),
      {ScalarOp::mul, 0, 1},
      {ScalarOp::erf, 2},
      known_value(0.5),
      known_value(1),
      {ScalarOp::add, 3, 5},
      {ScalarOp::mul, 6, 4},
      {ScalarOp::mul, 0, 7}}},
    // layer_scale+add
    {3, {{ScalarOp::mul, 0, 1}, {ScalarOp::add, 3, 2}}},
    // gelu_grad
    {2,
     {known_value(-0.5),
      {ScalarOp::mul, 1, 1},
      {ScalarOp::mul, 3, 2},
      {ScalarOp::exp, 4},
      known_value(std::numbers::inv_sqrtpi / std::numbers::sqrt2),
      {ScalarOp::mul, 5, 6},
      {ScalarOp::mul, 1, 7},
      known_value(1 / std::numbers::sqrt2),
      {ScalarOp::mul, 1, 9},
      {ScalarOp::erf, 10},
      known_value(0.5),
      known_value(1),
      {ScalarOp::add, 11, 13},
      {ScalarOp::mul, 14, 12},
      {ScalarOp::add, 15, 8},
      {ScalarOp::mul, 0, 16}}},
    // batch_norm
    {5,
     {{ScalarOp::sub, 0, 1}, {ScalarOp::mul, 5, 2}, {ScalarOp::mul, 6, 3}, {ScalarOp::add, 7, 4}}},
    // scale_channels
    {2, {{ScalarOp::mul, 0, 1}}},
    // sub
    {2, {{ScalarOp::sub, 0, 1}}},
    // relu
    {1, {known_value(0), {ScalarOp::max, 0, 1}}},
    // group_norm_input_grad, layer_norm_input_grad
    {7,
     {{ScalarOp::sub, 1, 2},
      {ScalarOp::mul, 7, 3},
      {ScalarOp::mul, 0, 4},
      {ScalarOp::sub, 9, 5},
      {ScalarOp::mul, 8, 6},
      {ScalarOp::sub, 10, 11},
      {ScalarOp::mul, 12, 3}}},
};

inline constexpr int kKnownCount = static_cast<int>(std::size(kKnownPrograms));

// Which of them a program is, whatever the order of its inputs.
struct KnownMatch {
  int program = -1;                          // or none
  uint8_t inputs[kMaxScalarRegisters] = {};  // the program's, for each of the known one's
};
KnownMatch known_program(const ScalarProgram& program);

}  // namespace tessera
