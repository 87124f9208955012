// Isa: the instruction set of the CPU kernels. Leaf functions are in *_simd.cc files, which are
// compiled once per instruction set into the namespace TESSERA_ISA. Other code reaches them only
// through a table of plain function pointers:
//
//   struct FiniteMicrokernels { bool (*f32)(...), (*f64)(...); };         // engine/reduce_simd.h
//   TESSERA_DECLARE_MICROKERNELS(FiniteMicrokernels, finite_microkernels)
//   microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(finite_microkernels))(x, count);
#pragma once

#include <type_traits>

namespace tessera {

// avx512_bf16 is avx512 with products of bfloat16 (VDPBF16PS). The results are the same without.
enum class Isa { baseline, avx2, avx512, avx512_bf16 };

// Returns the fastest set of this CPU and build: on Intel's CPUs at most avx512, whose FMAs are
// faster than VDPBF16PS. The environment variable TESSERA_MAX_ISA, one of these names, is used
// instead, or else the best below it (for tests and measurements). Read once.
Isa current_isa();
const char* isa_name(Isa isa);

// Matrix products and convolutions have handwritten kernels for AVX2 and AVX-512 only (sources
// listed as NATIVE and AVX in a CMakeLists.txt). Elsewhere, and in builds with -DTESSERA_PORTABLE,
// Eigen computes them.
#if defined(__x86_64__) && !defined(TESSERA_PORTABLE)
inline constexpr bool kNativeKernels = true;  // this build contains them
#else
inline constexpr bool kNativeKernels = false;
#endif
inline bool has_native_kernels() { return kNativeKernels && current_isa() != Isa::baseline; }

// Results have the same bits with AVX2 and AVX-512: whatever orders a sum counts in vectors of 64
// bytes, which AVX2 computes in two registers. Returns the elements of such a vector.
template <class T>
inline constexpr int kWideLanes = 64 / static_cast<int>(sizeof(T));

// Returns the member of a table for T: f32, f64, or bf16 for elements of two bytes.
template <class T, class Microkernels>
const auto& microkernels_for(const Microkernels& table) {
  if constexpr (std::is_same_v<T, float>)
    return table.f32;
  else if constexpr (std::is_same_v<T, double>)
    return table.f64;
  else if constexpr (sizeof(T) == 2)
    return table.bf16;
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
  (::tessera::current_isa() >= ::tessera::Isa::avx512 ? ::tessera::avx512::table \
   : ::tessera::current_isa() == ::tessera::Isa::avx2 ? ::tessera::avx2::table   \
                                                      : ::tessera::baseline::table)
// Macros for native kernels, without baseline. Require has_native_kernels().
#define TESSERA_DECLARE_AVX_MICROKERNELS(Type, table) \
  namespace avx2 {                                    \
  extern const Type table;                            \
  }                                                   \
  namespace avx512 {                                  \
  extern const Type table;                            \
  }
#define TESSERA_SELECT_AVX_MICROKERNELS(table)                                   \
  (::tessera::current_isa() >= ::tessera::Isa::avx512 ? ::tessera::avx512::table \
                                                      : ::tessera::avx2::table)
// Macros for native kernels that multiply bfloat16.
#define TESSERA_DECLARE_BF16_MICROKERNELS(Type, table) \
  TESSERA_DECLARE_AVX_MICROKERNELS(Type, table)        \
  namespace avx512_bf16 {                              \
  extern const Type table;                             \
  }
#define TESSERA_SELECT_BF16_MICROKERNELS(table)            \
  (::tessera::current_isa() == ::tessera::Isa::avx512_bf16 \
       ? ::tessera::avx512_bf16::table                     \
       : TESSERA_SELECT_AVX_MICROKERNELS(table))
#else
#define TESSERA_DECLARE_MICROKERNELS(Type, table) \
  namespace baseline {                            \
  extern const Type table;                        \
  }
#define TESSERA_SELECT_MICROKERNELS(table) (::tessera::baseline::table)
#endif
