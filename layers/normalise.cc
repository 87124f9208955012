#include "tessera/layers/normalise.h"

namespace tessera {
namespace {

ScalarProgram normalise_program() {
  ScalarBuilder b(5);  // x, mean, inverse, gamma, beta
  const int xhat = b.mul(b.sub(b.in(0), b.in(1)), b.in(2));
  return b.build(b.add(b.mul(xhat, b.in(3)), b.in(4)));
}

}  // namespace

Normalise::Normalise(std::string name) : step_({std::move(name), normalise_program()}) {}

}  // namespace tessera
