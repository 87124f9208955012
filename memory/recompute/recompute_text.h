// Problems of recomputation as text, one value or step a line, so that any case can be saved,
// replayed and compared:
//
//   # comment
//   budget 4096                                         at most once; none: no limit
//   value x 0                                           NAME BYTES
//   value y 1024
//   value z 1024 takes=y                                may take the block of y
//   value loss 64 result
//   step conv 1200 reads=x,w makes=y scratch=4096       NAME COST
//   step relu 20 reads=y makes=z cheap                  an element-wise step, or a norm
//   step update 5 reads=g,w overwrites=w once           never runs again
//
// A value stands before the steps that name it, steps stand in the order in which they run first. A
// value that no step makes is from outside. Names have no blanks, commas or '='; those of values
// differ. Numbers are whole, not below 0, of at most 62 bits. What they mean stands in recompute.h.
#pragma once

#include <string>
#include <string_view>

#include "tessera/memory/recompute/recompute.h"

namespace tessera {

// Throws DataError naming file, line and column. `file` is only for messages.
RecomputeProblem read_recompute(std::string_view text, std::string_view file = "text");
RecomputeProblem read_recompute_file(const std::string& path);

// Names that could not be read again are replaced, by v or s and the number where there are none.
// Read, written and read again it is the same problem.
std::string write_recompute(const RecomputeProblem& problem);

}  // namespace tessera
