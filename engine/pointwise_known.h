// The scalar programs that there is compiled code for, on CPUs and GPUs: those of the networks of
// the zoo, which a test finds in their training steps, and a few more. The others are interpreted.
#pragma once

#include <initializer_list>
#include <iterator>

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
    {2, {known_value(0), {ScalarOp::greater, 0, 2}, known_value(0), {ScalarOp::select, 3, 1, 4}}},
    // relu_grad, of a batch_norm+relu that is computed again
    {6,
     {{ScalarOp::sub, 1, 2},
      {ScalarOp::mul, 6, 3},
      {ScalarOp::mul, 7, 4},
      {ScalarOp::add, 8, 5},
      known_value(0),
      {ScalarOp::max, 9, 10},
      known_value(0),
      {ScalarOp::greater, 11, 12},
      known_value(0),
      {ScalarOp::select, 13, 0, 14}}},
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
      known_value(6),
      {ScalarOp::greater, 14, 13},
      known_value(0),
      {ScalarOp::greater, 13, 16},
      {ScalarOp::mul, 17, 15},
      known_value(0),
      {ScalarOp::select, 18, 0, 19}}},
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
      {ScalarOp::greater, 12, 14},
      known_value(0),
      {ScalarOp::select, 15, 13, 16}}},
    // add+relu_grad
    {3,
     {{ScalarOp::add, 0, 1},
      known_value(0),
      {ScalarOp::greater, 2, 4},
      known_value(0),
      {ScalarOp::select, 5, 3, 6}}},
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
     {known_value(6),
      {ScalarOp::greater, 2, 0},
      known_value(0),
      {ScalarOp::greater, 0, 4},
      {ScalarOp::mul, 5, 3},
      known_value(0),
      {ScalarOp::select, 6, 1, 7}}},
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
