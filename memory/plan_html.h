// Plans as one HTML file that needs nothing else: time to the right, addresses upwards, colour by
// group; hovering over a box tells what it is, a search finds it. Several stand side by side, in
// one scale of bytes, and of time where they have as many steps.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/memory/plan.h"

namespace tessera {

// What is known of a buffer beyond the plan.
struct BufferLabel {
  std::string name;     // "%12 conv2d"; empty: the buffer's id
  std::string group;    // gives the colour: "activations"; when all are the same, boxes differ
  std::string details;  // more lines
};

struct PlanPicture {
  std::string title;
  Problem problem;
  Plan plan;
  std::vector<BufferLabel> labels = {};  // one per buffer, or none
  std::vector<std::string> steps = {};   // what happens at time 0, 1, ...; may be shorter
  int64_t forward_ends = -1;             // the first time of the backward pass, which is marked
};

std::string draw_plan_html(std::span<const PlanPicture> pictures);
// The same in small pieces, one after the other.
void draw_plan_html(std::span<const PlanPicture> pictures,
                    const std::function<void(std::string_view)>& piece);

}  // namespace tessera
