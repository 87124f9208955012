// Recomputation problems as text, one value or step a line, so that any case can be saved, replayed
// and compared:
//
//   # comment
//   budget 4096                                         at most once; none: no limit
//   value x 0                                           NAME BYTES
//   value y 1024
//   value z 1024 may_reuse=y                            may reuse the block of y
//   value loss 64 result
//   step conv 1200 reads=x,w makes=y scratch=4096       NAME COST
//   step relu 20 reads=y makes=z cheap                  an element-wise step, or a norm
//   step update 5 reads=g,w overwrites=w once           never runs again
//
// A value is declared before the steps that name it; steps are in the order of their first runs. A
// value that no step makes is external. Names have no blanks, commas or '='; those of values
// differ. Numbers are whole, not below 0, of at most 62 bits. recompute.h explains their meaning.
#pragma once

#include <string>
#include <string_view>

#include "tessera/memory/recompute/recompute.h"

namespace tessera {

// Returns the problem. Throws DataError naming file, line and column. `file` is only for messages.
RecomputeProblem read_recompute(std::string_view text, std::string_view file = "text");
RecomputeProblem read_recompute_file(const std::string& path);

// Returns the problem as text. Names that could not be read are replaced, empty ones by v or s and
// the number. Writing and reading a problem that was read returns an equal problem.
std::string write_recompute(const RecomputeProblem& problem);

}  // namespace tessera
