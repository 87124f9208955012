// Planted failures: TESSERA_DOUBLE_FAIL, see double.h.
#pragma once

#include <string>

namespace cuda_double {

void plant(const std::string& text);
// Counts one more of a kind ("malloc", "dnn:plan"); returns true if this one is to fail.
// cuda_double_failed_call() then returns `call`.
bool fails(const char* kind, const char* call);
const std::string& failed_call();

}  // namespace cuda_double
