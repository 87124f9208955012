// Pictures of a plan: x is time, y is the address, each buffer a box.
#pragma once

#include <string>

#include "tessera/memory/plan.h"

namespace tessera {

// For a terminal: `rows` lines of addresses, the highest first, `columns` characters of time. A
// letter stands for the buffer that holds most of a cell, '.' for free bytes; where there are more
// buffers than letters, the largest have one each and '+' stands for the others. `legend`: how many
// lines follow with the letters of the largest buffers, their names, sizes and lifetimes.
std::string draw_plan_text(const Problem& problem, const Plan& plan, int columns = 72,
                           int rows = 24, int legend = 0);

// One self-contained SVG file with bytes and steps along the axes; the peak and the lower bound are
// marked, hovering over a box names its buffer.
std::string draw_plan_svg(const Problem& problem, const Plan& plan, int width = 1200,
                          int height = 600);

}  // namespace tessera
