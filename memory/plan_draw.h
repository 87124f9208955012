// Drawings of plans as text, SVG and HTML: time to the right, addresses upwards, each buffer a box.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/memory/plan.h"

namespace tessera {

// Draws for a terminal: `rows` lines of addresses, the highest first, `columns` characters of time.
// A letter stands for the buffer that holds most of a cell, '.' for free bytes. If there are more
// buffers than letters, the largest have one each and '+' stands for the others. `legend` is the
// number of lines that follow with the letters, names, sizes and lifetimes of the largest buffers.
std::string draw_plan_text(const Problem& problem, const Plan& plan, int columns = 72,
                           int rows = 24, int legend = 0);

// Returns one self-contained SVG file with bytes and nodes along the axes. The peak and the lower
// bound are marked; hovering over a box shows the buffer's name.
std::string draw_plan_svg(const Problem& problem, const Plan& plan, int width = 1200,
                          int height = 600);
// Calls `piece` with parts of that text, each of a few KiB.
void draw_plan_svg(const Problem& problem, const Plan& plan, int width, int height,
                   const std::function<void(std::string)>& piece);

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

// Draws plans as one self-contained HTML file, coloured by group. Hovering over a box shows its
// details; a search finds it. Several plans are drawn next to each other, in one scale of bytes,
// and of time if they have equally many nodes.
std::string draw_plan_html(std::span<const PlanPicture> pictures);
// Passes the file to `piece` in small pieces, in order.
void draw_plan_html(std::span<const PlanPicture> pictures,
                    const std::function<void(std::string_view)>& piece);

}  // namespace tessera
