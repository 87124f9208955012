// What strategies are made of: fill a frontier, read the ways off it. Private to memory/recompute.
#pragma once

#include "tessera/memory/recompute/frontier.h"
#include "tessera/memory/recompute/tables.h"

namespace tessera::recomputing {

// From no recomputation down: once in many small steps, and straight to each of some budgets, which
// looks at all that is above it from the beginning. Runs all steps again that may, or only cheap
// ones.
void go_down(const Tables& tables, bool only_cheap, Frontier& frontier);

// The values that cross from forward to backward are cut in 1 to 64 segments, of which only what
// crosses from one to the next is kept.
void cut_in_segments(const Tables& tables, Frontier& frontier);

// Looks for better ones all along the frontier.
void improve(const Tables& tables, Frontier& frontier);

std::vector<Runs> ways_of(const Tables& tables, const Frontier& frontier);

}  // namespace tessera::recomputing
