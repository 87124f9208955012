// Links every floor through the installed headers and prints a product.
#include <cstdio>

#include <tessera/tessera.h>

int main() {
  using namespace tessera;
  Tensor a = from_vector<float>({2, 2}, {1, 2, 3, 4}), b = from_vector<float>({2, 2}, {5, 6, 7, 8});
  std::vector<float> y = matmul(a, b).to_vector<float>();
  std::printf("%g %g %g %g\n", y[0], y[1], y[2], y[3]);
}
