// Memory problems and plans as text, in the CSV dialect of MiniMalloc
// (https://github.com/google/minimalloc), so that any case can be saved, replayed and compared.
//
//   id,lower,upper,size            required; the columns may come in any order
//   alignment,hint,gaps,offset     optional; hint and offset -1 or empty: none
//
// "buffer" and "buffer_id" mean id, "start" and "begin" mean lower, "end" means the last time at
// which the buffer is live (upper - 1; then gaps end inclusively too). Gaps look like "4-7 9-12".
// Windows in gaps ("4-7@0:16") are refused, and so are control characters and numbers of more than
// 62 bits. A buffer without a name is named by its number, from 0. Writing and reading a problem
// that was read returns an equal problem.
#pragma once

#include <string>
#include <string_view>

#include "tessera/memory/plan.h"

namespace tessera {

// Returns the problem. Throws DataError naming file, line and column. `file` is only for messages.
Problem read_plan_csv(std::string_view text, std::string_view file = "csv");
Problem read_plan_csv_file(const std::string& path);

// Returns the problem as CSV, with optional columns if a buffer uses them. If `plan` is given, its
// offsets are the offset column.
std::string write_plan_csv(const Problem& problem, const Plan* plan = nullptr);

}  // namespace tessera
