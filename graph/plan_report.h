// What a program needs, for people and for files: bytes by region and class, and who needs most.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/memory/plan.h"

namespace tessera {

class Program;  // program.h

struct PlannedTensor {
  std::string name;   // "%12 conv2d" or the parameter's name
  std::string place;  // where in the model
  std::string spec;
  int64_t bytes = 0;
  int64_t lower = 0, upper = 0;  // steps, half-open
};

// All sizes in bytes.
struct PlanReport {
  int64_t arena = 0;        // what the plan takes
  int64_t lower_bound = 0;  // the most that is live at one time: no plan can take less
  int64_t unplanned = 0;    // the sum of all blocks: without sharing
  int64_t persistent = 0;   // parameters, optimizer state, statistics
  int64_t slots = 0;        // arguments and results
  // parameters, state, slots, and what is live in the arena at its fullest time: activations,
  // gradients, workspace.
  std::map<std::string, int64_t> classes;
  int tensors = 0, steps = 0;
  std::string planner;
  std::vector<PlannedTensor> top;  // the ten largest blocks of the arena
  Problem problem;                 // what was planned, for drawing and for files
  Plan plan;

  int64_t total() const { return arena + persistent + slots; }
  double ratio() const;  // arena / lower bound
  std::string json() const;
  std::string text() const;
};

PlanReport plan_report(const Program& program);

}  // namespace tessera
