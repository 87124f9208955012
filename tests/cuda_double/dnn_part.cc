// A part of the double's cuDNN: a separate file, like the vendor's, which works only with parts of
// its version and exports its version like theirs.
#include <cudnn_version.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define OF_VERSION JOIN(cudnn_double_, TESSERA_PATCH)

extern "C" {

extern const int OF_VERSION, cudnn_graph_version, cudnn_ops_infer_version, cudnn_adv_infer_version;
extern const int* const cudnn_double_stands_on;

constexpr int kVersion = CUDNN_MAJOR << 16 | CUDNN_MINOR << 8 | TESSERA_PATCH;
#if defined(TESSERA_PART_graph)
const int OF_VERSION = kVersion, cudnn_graph_version = kVersion;
#elif defined(TESSERA_PART_ops)
const int cudnn_ops_infer_version = kVersion;
#elif defined(TESSERA_PART_adv)
const int cudnn_adv_infer_version = kVersion;
#else
const int* const cudnn_double_stands_on = &OF_VERSION;
#endif
}
