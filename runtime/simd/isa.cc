#include "tessera/runtime/simd/isa.h"

#include <cstdlib>
#include <string_view>

namespace tessera {
namespace {

Isa detect() {
  Isa best = Isa::baseline;
#if defined(__x86_64__) && !defined(TESSERA_PORTABLE)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = Isa::avx2;
  if (best == Isa::avx2 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    best = __builtin_cpu_supports("avx512bf16") ? Isa::avx512_bf16 : Isa::avx512;
#endif
  const char* limit = std::getenv("TESSERA_MAX_ISA");
  if (limit == nullptr) {
#if defined(__x86_64__)
    // Intel's processors multiply pairs with AMX. On Emerald Rapids a VDPBF16PS takes as long as
    // four FMAs, which multiply two pairs.
    if (best == Isa::avx512_bf16 && __builtin_cpu_is("intel")) return Isa::avx512;
#endif
    return best;
  }
  for (Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512, Isa::avx512_bf16})
    if (std::string_view(limit) == isa_name(isa) && isa < best) return isa;
  return best;
}

}  // namespace

Isa current_isa() {
  static const Isa isa = detect();
  return isa;
}

const char* isa_name(Isa isa) {
  constexpr const char* kNames[] = {"baseline", "avx2", "avx512", "avx512_bf16"};
  return kNames[static_cast<size_t>(isa)];
}

}  // namespace tessera
