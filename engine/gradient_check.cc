#include "tessera/engine/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/structural.h"

namespace tessera {
namespace {

double objective(const std::function<Tensor(const Tensors&)>& f, const Tensors& inputs,
                 const std::vector<double>& upstream) {
  std::vector<double> y = f(inputs).to_vector<double>();
  return std::inner_product(y.begin(), y.end(), upstream.begin(), 0.0);
}

double length(const std::vector<double>& v) {
  return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
}

}  // namespace

GradientCheckResult check_gradients(const std::function<Tensor(const Tensors&)>& f,
                                    const Tensors& inputs, const GradientCheckSettings& settings) {
  Tensors leaves, wrt;
  for (const Tensor& x : inputs) {
    bool smooth = x.dtype() == DType::f64;
    leaves.push_back(smooth ? requires_grad(detach(copy(x))) : x);
    if (smooth) wrt.push_back(leaves.back());
  }
  Tensor y = f(leaves);
  Tensor upstream = random_normal(y.shape(), settings.key, 0, 1, DType::f64);
  Tensors analytic = gradients(y, wrt, upstream);
  std::vector<double> u = upstream.to_vector<double>();

  GradientCheckResult result;
  for (size_t k = 0; k < wrt.size(); ++k) {
    std::vector<double> a = analytic[k].to_vector<double>(), x = wrt[k].to_vector<double>();
    std::vector<double> difference(a.size()), numeric(a.size());
    size_t furthest = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      double here = x[i];
      auto at = [&](double value) {
        x[i] = value;
        wrt[k].assign<double>(x);
        return objective(f, leaves, u);
      };
      double high = here + settings.step, low = here - settings.step;
      numeric[i] = (at(high) - at(low)) / (high - low);
      at(here);
      difference[i] = a[i] - numeric[i];
      if (std::abs(difference[i]) > std::abs(difference[furthest])) furthest = i;
    }
    double error = length(difference) / std::max({length(a), length(numeric), 1e-8});
    if (x.empty()) continue;
    result.worst = std::max(result.worst, std::isnan(error) ? INFINITY : error);
    result.report += fmt::format(
        "gradient {} ({}): relative error {:.3g}; largest difference at element {}: analytic "
        "{:.9g}, numeric {:.9g}\n",
        k, wrt[k].spec().text(), error, furthest, a[furthest], numeric[furthest]);
  }
  result.passed = result.worst <= settings.tolerance;
  return result;
}

}  // namespace tessera
