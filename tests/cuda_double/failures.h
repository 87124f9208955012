// Failures that are planted: TESSERA_DOUBLE_FAIL, see double.h.
#pragma once

#include <string>

namespace cuda_double {

void plant(const std::string& text);
// Counts one more of a kind ("malloc", "dnn:plan"); true where it is the one that was to fail.
// `call` is what cuda_double_failed_call() then gives.
bool fails(const char* kind, const char* call);
const std::string& failed_call();

}  // namespace cuda_double
