// Which instruction set the CPU kernels use. Leaf functions live in *_simd.cc files, compiled once
// per instruction set into the namespace TESSERA_ISA; a table of plain function pointers is all
// that crosses:
//
//   struct GemmMicrokernels { void (*f32)(...); };             // gemm_simd.h
//   namespace avx2 { extern const GemmMicrokernels gemm_microkernels; } ...   //
//   TESSERA_DECLARE_MICROKERNELS
//   microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(gemm_microkernels)).gather(...);
#pragma once

#include <type_traits>

namespace tessera {

enum class Isa { baseline, avx2, avx512 };

// The best one that this CPU has and this build carries; TESSERA_MAX_ISA=baseline|avx2|avx512 in
// the environment lowers it (for tests and measurements). Read once.
Isa current_isa();
const char* isa_name(Isa isa);

// Kernels of matrix products and convolutions are written by hand for AVX2 and AVX-512 only
// (sources listed as NATIVE and AVX in a CMakeLists.txt); elsewhere, and in builds with
// -DTESSERA_PORTABLE, Eigen computes them.
#if defined(__x86_64__) && !defined(TESSERA_PORTABLE)
inline constexpr bool kNativeKernels = true;  // this build carries them
#else
inline constexpr bool kNativeKernels = false;
#endif
inline bool has_native_kernels() { return kNativeKernels && current_isa() != Isa::baseline; }

// Of a table with members f32 and f64: the one for T.
template <class T, class Microkernels>
const auto& microkernels_for(const Microkernels& table) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  if constexpr (std::is_same_v<T, float>)
    return table.f32;
  else
    return table.f64;
}

}  // namespace tessera

#if defined(__x86_64__) && !defined(TESSERA_PORTABLE)
#define TESSERA_DECLARE_MICROKERNELS(Type, table) \
  namespace baseline {                            \
  extern const Type table;                        \
  }                                               \
  namespace avx2 {                                \
  extern const Type table;                        \
  }                                               \
  namespace avx512 {                              \
  extern const Type table;                        \
  }
#define TESSERA_SELECT_MICROKERNELS(table)                                       \
  (::tessera::current_isa() == ::tessera::Isa::avx512 ? ::tessera::avx512::table \
   : ::tessera::current_isa() == ::tessera::Isa::avx2 ? ::tessera::avx2::table   \
                                                      : ::tessera::baseline::table)
// The same without baseline, for native kernels: to be asked where has_native_kernels() only.
#define TESSERA_DECLARE_AVX_MICROKERNELS(Type, table) \
  namespace avx2 {                                    \
  extern const Type table;                            \
  }                                                   \
  namespace avx512 {                                  \
  extern const Type table;                            \
  }
#define TESSERA_SELECT_AVX_MICROKERNELS(table)                                   \
  (::tessera::current_isa() == ::tessera::Isa::avx512 ? ::tessera::avx512::table \
                                                      : ::tessera::avx2::table)
#else
#define TESSERA_DECLARE_MICROKERNELS(Type, table) \
  namespace baseline {                            \
  extern const Type table;                        \
  }
#define TESSERA_SELECT_MICROKERNELS(table) (::tessera::baseline::table)
#endif
