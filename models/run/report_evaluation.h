// The sections of report.html that tell what an evaluation came to: figures of each class,
// confusion, calibration. Each is "" where there is nothing to show.
#pragma once

#include <string>
#include <vector>

#include "tessera/models/run/calibration.h"
#include "tessera/models/run/confusion_matrix.h"

namespace tessera {

// Precision, recall and F1 of each class, with what it is mistaken for, and their averages.
std::string classes_html(const ConfusionMatrix& confusion, const std::vector<std::string>& names);
// The pairs that are confused most, and all as a picture where at most 100 classes occur.
std::string confusion_html(const ConfusionMatrix& confusion, const std::vector<std::string>& names);
// The expected calibration error and the reliability diagram.
std::string calibration_html(const Calibration& calibration);

}  // namespace tessera
