// Any bytes as a CSV file: refused with a DataError, or writing and reading the problem returns an
// equal one.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tessera/memory/plan_csv.h"
#include "tessera/runtime/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  Problem problem;
  try {
    problem = read_plan_csv({reinterpret_cast<const char*>(data), size});
  } catch (const DataError&) {
    return 0;
  }
  if (malformed(problem)) std::abort();
  if (read_plan_csv(write_plan_csv(problem)) != problem) std::abort();
  return 0;
}
