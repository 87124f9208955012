// How well each class is told from the others: precision, recall and F1, as scikit-learn's
// classification_report defines them, with zero_division=0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/models/run/confusion_matrix.h"

namespace tessera {

struct ClassFigures {
  int64_t label = 0;
  int64_t images = 0;  // of the class; the support
  int64_t taken = 0;   // images, of any class, that were taken for it
  int64_t right = 0;

  // 0 where nothing is to be divided by.
  double precision() const { return part(right, taken); }
  double recall() const { return part(right, images); }
  double f1() const { return part(2 * right, images + taken); }

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
  std::vector<ClassFigures> classes;
  ClassAverage macro;     // the mean of these classes
  ClassAverage weighted;  // the same, each class as often as it has images
  int64_t images = 0, right = 0;
};
ClassReport class_report(const ConfusionMatrix& confusion);

// Images of one class that were taken for another.
struct ConfusedPair {
  int64_t truth = 0, taken_for = 0, images = 0;
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

}  // namespace tessera
