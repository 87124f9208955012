// What an evaluation came to, in a report.
#pragma once

namespace tessera {

class Dataset;      // models/data/dataset.h
struct Evaluation;  // tally.h
struct RunReport;   // models/run/run_report.h

// All that the report says of the images that were evaluated, with pictures of the worst mistakes.
void add_evaluation(RunReport& report, const Evaluation& evaluation, const Dataset& images);

}  // namespace tessera
