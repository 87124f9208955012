#include "tessera/models/training/evaluation_report.h"

#include <vector>

#include "tessera/models/run/run_report.h"
#include "tessera/models/run/thumbnail.h"
#include "tessera/models/training/tally.h"

namespace tessera {

void add_evaluation(RunReport& report, const Evaluation& evaluation, const Dataset& images) {
  report.confusion = evaluation.confusion;
  report.calibration = evaluation.calibration;
  report.classes = images.class_names();
  report.top1 = evaluation.accuracy();
  if (evaluation.confusion.classes > 5) report.top5 = evaluation.top5();
  report.mistakes = evaluation.mistakes.all();
  std::vector<uint8_t> image(static_cast<size_t>(images.shape().bytes()));
  for (Mistake& mistake : report.mistakes) {
    images.read(mistake.sample, image.data());
    mistake.picture = thumbnail_uri(image.data(), images.shape());
  }
}

}  // namespace tessera
