// Plans as one self-contained HTML file: time to the right, addresses upwards, colour by group.
// Hovering over a box shows its details; a search finds it. Several plans are drawn next to each
// other, in one scale of bytes, and of time if they have equally many nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/memory/plan.h"

namespace tessera {

// The labels of a buffer, in addition to the plan.
struct BufferLabel {
  std::string name;     // "%12 conv2d"; empty: the buffer's id
  std::string group;    // the colour: "activations"; if all are equal, every box has its own
  std::string details;  // more lines
};

struct PlanPicture {
  std::string title;
  Problem problem;
  Plan plan;
  std::vector<BufferLabel> labels = {};  // one per buffer, or none
  std::vector<std::string> nodes = {};   // names of the times 0, 1, ...; may be shorter
  int64_t forward_ends = -1;             // the first time of the backward pass, which is marked
};

std::string draw_plan_html(std::span<const PlanPicture> pictures);
// Passes the file to `piece` in small pieces, in order.
void draw_plan_html(std::span<const PlanPicture> pictures,
                    const std::function<void(std::string_view)>& piece);

}  // namespace tessera
