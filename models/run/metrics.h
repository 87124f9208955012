// Metrics of an evaluation: confusion matrix, metrics per class, calibration, top errors.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/runtime/text/report.h"

namespace tessera {

// Counts of images by true and predicted class: counts[truth * classes + prediction].
struct ConfusionMatrix {
  int64_t classes = 0;
  std::vector<int64_t> counts;

  explicit ConfusionMatrix(int64_t classes = 0)
      : classes(classes), counts(static_cast<size_t>(classes * classes)) {}
  // Counts an image. Ignores labels and predictions outside of [0, classes).
  void add(int64_t truth, int64_t prediction);
  int64_t count(int64_t truth, int64_t prediction) const {
    return counts[static_cast<size_t>(truth * classes + prediction)];
  }
  // Returns a table for a terminal, with numbers of classes; "" for more than `most` classes.
  std::string text(int64_t most = 20) const;
};

// The metrics of one class, as in scikit-learn's classification_report with zero_division=0.
struct ClassMetrics {
  int64_t label = 0;
  int64_t images = 0;     // images of the class; the support
  int64_t predicted = 0;  // images of any class with this prediction
  int64_t correct = 0;

  // Return 0 if the divisor is 0.
  double precision() const { return part(correct, predicted); }
  double recall() const { return part(correct, images); }
  double f1() const { return part(2 * correct, images + predicted); }

 private:
  static double part(int64_t of, int64_t whole) {
    return whole > 0 ? static_cast<double>(of) / static_cast<double>(whole) : 0;
  }
};

struct ClassAverage {
  double precision = 0, recall = 0, f1 = 0;
};

struct ClassReport {
  // Classes that occur as truth or as prediction, by label.
  std::vector<ClassMetrics> classes;
  ClassAverage macro;     // mean of these classes
  ClassAverage weighted;  // mean of these classes, weighted by images
  int64_t images = 0, correct = 0;
};
ClassReport class_report(const ConfusionMatrix& confusion);

// Images of one class that were predicted as another.
struct ConfusedPair {
  int64_t truth = 0, predicted = 0, images = 0;
  double share = 0;  // fraction of the images of class `truth`
};
// Returns the `most` pairs with the most images, in decreasing order; ties in order of classes.
std::vector<ConfusedPair> most_confused(const ConfusionMatrix& confusion, size_t most);

// Returns the name of a class, or its number if it has no name.
std::string class_name(const std::vector<std::string>& names, int64_t label);

// Adds a table of the classes in order or, if there are more than `most`, of the ten with the
// lowest F1, those without images last; then the averages. JSON has all classes.
void add_classes(Report& to, const ClassReport& report, const std::vector<std::string>& names,
                 size_t most = 20);

// Returns sum / images; for 0 images a NaN without a sign, because a signed NaN prints as -nan.
double mean_of(double sum, int64_t images);

// The expected calibration error (Guo et al., "On Calibration of Modern Neural Networks", 2017).
// Bins count images by confidence, the largest softmax probability: bin k counts those in
// (k / 15, (k + 1) / 15], bin 0 also 0.
struct Calibration {
  static constexpr size_t kBins = 15;

  struct Bin {
    int64_t images = 0, correct = 0;
    double confidence_sum = 0;  // sum over the images

    // Return means over the images. Require images > 0.
    double accuracy() const { return static_cast<double>(correct) / static_cast<double>(images); }
    double confidence() const { return confidence_sum / static_cast<double>(images); }
  };
  std::array<Bin, kBins> bins{};

  // Counts an image. A NaN confidence counts in bin 0 and makes error() NaN.
  void add(double confidence, bool is_correct);
  int64_t images() const;
  double confidence() const;  // mean over all images; NaN without images
  // Returns the mean over all images of |accuracy - confidence| of their bin; NaN without images.
  double error() const;
};

// An image that was predicted as a wrong class.
struct Misclassification {
  int64_t sample = 0;  // index in the data
  int64_t truth = 0, predicted = 0;
  double share = 0;     // confidence in [0, 1]
  std::string picture;  // a URI (models/run/run_report.h), or empty
};

// Keeps the `most` added errors with the highest confidence, in decreasing order.
class TopErrors {
 public:
  void add(const Misclassification& mistake, size_t most = 24) {
    if (all_.size() == most && !(mistake.share > all_.back().share)) return;
    all_.insert(
        std::ranges::upper_bound(all_, mistake.share, std::greater(), &Misclassification::share),
        mistake);
    if (all_.size() > most) all_.pop_back();
  }
  const std::vector<Misclassification>& all() const { return all_; }

 private:
  std::vector<Misclassification> all_;
};

}  // namespace tessera
