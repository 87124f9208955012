#include "failures.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "machine.h"

namespace cuda_double {
namespace {

constexpr const char* kKinds[] = {"malloc",      "pinned",   "call",   "sticky:kernel",
                                  "sticky:call", "dnn:plan", "dnn:run"};

struct Planted {
  std::string kind, call;
  long left = 0;
};

Planted parsed(const std::string& text) {
  if (text.empty()) return {};
  const size_t colon = text.rfind(':');
  const Planted made{text.substr(0, colon), "",
                     colon == std::string::npos ? 0 : std::atol(text.c_str() + colon + 1)};
  if (made.left < 1 ||
      std::find(std::begin(kKinds), std::end(kKinds), made.kind) == std::end(kKinds))
    broken("TESSERA_DOUBLE_FAIL is '" + text + "'; double.h says what it may be");
  return made;
}

Planted& planted() {
  static auto* const one = [] {
    const char* const text = std::getenv("TESSERA_DOUBLE_FAIL");
    return new Planted(parsed(text == nullptr ? "" : text));
  }();
  return *one;
}

}  // namespace

void plant(const std::string& text) { planted() = parsed(text); }

bool fails(const char* kind, const char* call) {
  Planted& one = planted();
  if (one.kind != kind || --one.left != 0) return false;
  one.call = call;
  return true;
}

const std::string& failed_call() { return planted().call; }

}  // namespace cuda_double
