#include "tessera/layers/shared/normalise.h"

namespace tessera {
ScalarProgram normalise_program() {
  ScalarBuilder b(5);  // x, mean, inverse, gamma, beta
  const int xhat = b.mul(b.sub(b.in(0), b.in(1)), b.in(2));
  return b.build(b.add(b.mul(xhat, b.in(3)), b.in(4)));
}

ScalarProgram normalise_grad_program() {
  ScalarBuilder b(7);  // dy, x, mean, inverse, gamma, first, second
  const int xhat = b.mul(b.sub(b.in(1), b.in(2)), b.in(3));
  const int rest = b.sub(b.mul(b.in(0), b.in(4)), b.in(5));
  return b.build(b.mul(b.sub(rest, b.mul(xhat, b.in(6))), b.in(3)));
}

Normalise::Normalise(std::string name) : step_({std::move(name), normalise_program()}) {}

}  // namespace tessera
