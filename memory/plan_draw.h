// Drawings of a plan as text and SVG: x is time, y is the address, each buffer a box.
#pragma once

#include <functional>
#include <string>

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

}  // namespace tessera
