#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/layers/modules.h"
#include "tessera/runtime/error.h"

// Renames the namespace, so that its templates are not merged with those of a program that uses
// another Eigen.
#define Eigen tessera_eigen_whitening
#include <Eigen/Eigenvalues>

namespace tessera {
namespace {

using Matrix = Eigen::MatrixXd;

// Returns the mean of p p^T over all patches p of the images.
Matrix second_moments(std::span<const float> images, const Shape& shape, int64_t kernel) {
  const int64_t h = shape[1], w = shape[2], c = shape[3], row = kernel * c;
  const int64_t rows = h - kernel + 1, columns = w - kernel + 1;
  Matrix sum = Matrix::Zero(kernel * row, kernel * row);
  Eigen::VectorXd patch(kernel * row);
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t y = 0; y < rows; ++y)
      for (int64_t x = 0; x < columns; ++x) {
        for (int64_t u = 0; u < kernel; ++u) {
          const auto from = static_cast<size_t>((((n * h) + y + u) * w + x) * c);
          std::copy_n(images.data() + from, row, patch.data() + u * row);
        }
        sum.selfadjointView<Eigen::Lower>().rankUpdate(patch);
      }
  return sum / static_cast<double>(shape[0] * rows * columns);
}

}  // namespace

std::vector<float> whitening_filters(std::span<const float> images, const Shape& shape,
                                     int64_t kernel, double eps) {
  if (shape.rank() != 4 || shape.elements() != std::ssize(images) || kernel < 1 ||
      std::min(shape[1], shape[2]) < kernel || shape.elements() == 0)
    throw ShapeError(
        fmt::format("whitening: no patch of {} x {} pixels fits into images of shape {}", kernel,
                    kernel, shape.text()));
  const Matrix moments = second_moments(images, shape, kernel);
  const Eigen::SelfAdjointEigenSolver<Matrix> solved(moments);
  std::vector<float> filters;
  for (const double sign : {1.0, -1.0})
    for (int64_t i = moments.rows() - 1; i >= 0; --i) {  // the largest variance first
      Eigen::VectorXd vector = solved.eigenvectors().col(i);
      Eigen::Index largest = 0;  // made positive, as versions of the solver differ in signs
      vector.cwiseAbs().maxCoeff(&largest);
      if (vector[largest] < 0) vector = -vector;
      vector *= sign / std::sqrt(std::max(0.0, solved.eigenvalues()[i]) + eps);
      for (const double value : vector) filters.push_back(static_cast<float>(value));
    }
  return filters;
}

}  // namespace tessera
