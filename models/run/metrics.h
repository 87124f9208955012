// The figures of an evaluation: confusion, precision, recall and F1 of each class, calibration, the
// worst mistakes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

// Images by their class and by what they were taken for: counts[truth * classes + prediction], over
// the test images.
struct ConfusionMatrix {
  int64_t classes = 0;
  std::vector<int64_t> counts;

  explicit ConfusionMatrix(int64_t classes = 0)
      : classes(classes), counts(static_cast<size_t>(classes * classes)) {}
  // Labels and predictions outside of [0, classes) are passed over.
  void add(int64_t truth, int64_t prediction);
  int64_t count(int64_t truth, int64_t prediction) const {
    return counts[static_cast<size_t>(truth * classes + prediction)];
  }
  // For a terminal, classes by number; "" above `most` classes.
  std::string text(int64_t most = 20) const;
};

// How well a class is told from the others, as scikit-learn's classification_report defines it,
// with zero_division=0.
struct ClassMetrics {
  int64_t label = 0;
  int64_t images = 0;     // of the class; the support
  int64_t predicted = 0;  // images, of any class, that were taken for it
  int64_t correct = 0;

  // 0 where nothing is to be divided by.
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
  // Those that occur, as what an image is or as what it was taken for, by label.
  std::vector<ClassMetrics> classes;
  ClassAverage macro;     // the mean of these classes
  ClassAverage weighted;  // the same, each class as often as it has images
  int64_t images = 0, correct = 0;
};
ClassReport class_report(const ConfusionMatrix& confusion);

// Images of one class that were taken for another.
struct ConfusedPair {
  int64_t truth = 0, predicted = 0, images = 0;
  double share = 0;  // of the images of that class
};
// The `most` with the most images, these first; of equal ones the lower classes.
std::vector<ConfusedPair> most_confused(const ConfusionMatrix& confusion, size_t most);

// The name of a class, or its number where it has none.
std::string class_name(const std::vector<std::string>& names, int64_t label);

// A table for a terminal: classes in their order or, where there are more than `most`, the ten with
// the least F1, those without images last; then the averages.
std::string class_table(const ClassReport& report, const std::vector<std::string>& names,
                        size_t most = 20);

// The mean of so many; NaN of none, never the NaN with a sign, which prints as -nan.
double mean_of(double sum, int64_t images);

// Whether a network is as often right as it is sure: expected calibration error (Guo et al., "On
// Calibration of Modern Neural Networks", 2017).
// Images by how sure the network was, which is the largest softmax probability. Bin k holds those
// above k / 15 up to (k + 1) / 15, bin 0 also 0.
struct Calibration {
  static constexpr size_t kBins = 15;

  struct Bin {
    int64_t images = 0, correct = 0;
    double confidence_sum = 0;  // sum over the images

    // Means over the images; there must be some.
    double accuracy() const { return static_cast<double>(correct) / static_cast<double>(images); }
    double confidence() const { return confidence_sum / static_cast<double>(images); }
  };
  std::array<Bin, kBins> bins{};

  // A `sure` that is no number counts in bin 0, and makes the error none either.
  void add(double confidence, bool is_correct);
  int64_t images() const;
  double confidence() const;  // mean over all images; NaN of none
  // Mean over all images of |accuracy - confidence| of their bin; NaN of no images.
  double error() const;
};

// Images that were taken for another class, the surest mistakes first.
struct Misclassification {
  int64_t sample = 0;  // its index in the data
  int64_t truth = 0, predicted = 0;
  double share = 0;     // how sure the network was, in [0, 1]
  std::string picture;  // a URI (models/run/run_report.h), or empty
};

// Keeps the worst `most` of those that are added.
class TopErrors {
 public:
  void add(const Misclassification& mistake, size_t most = 24) {
    const auto worse = [](const Misclassification& a, const Misclassification& b) {
      return a.share > b.share;
    };
    if (all_.size() == most && !worse(mistake, all_.back())) return;
    all_.insert(std::upper_bound(all_.begin(), all_.end(), mistake, worse), mistake);
    if (all_.size() > most) all_.pop_back();
  }
  const std::vector<Misclassification>& all() const { return all_; }

 private:
  std::vector<Misclassification> all_;
};

}  // namespace tessera
