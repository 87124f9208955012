// cuDNN's backend C API, loaded on first use, and owning descriptors. For files of the GPU back end
// only: includes the vendor's header.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <cudnn_backend.h>

#include "tessera/runtime/cuda/vendor_library.h"

namespace tessera {

// The functions used, by the vendor's names.
#define TESSERA_DNN_FUNCTIONS(X)   \
  X(cudnnGetVersion)               \
  X(cudnnGetErrorString)           \
  X(cudnnGetLastErrorString)       \
  X(cudnnCreate)                   \
  X(cudnnDestroy)                  \
  X(cudnnSetStream)                \
  X(cudnnBackendCreateDescriptor)  \
  X(cudnnBackendDestroyDescriptor) \
  X(cudnnBackendSetAttribute)      \
  X(cudnnBackendGetAttribute)      \
  X(cudnnBackendFinalize)          \
  X(cudnnBackendExecute)

struct Dnn {
#define TESSERA_DNN_MEMBER(name) decltype(&::name) name = nullptr;
  TESSERA_DNN_FUNCTIONS(TESSERA_DNN_MEMBER)
#undef TESSERA_DNN_MEMBER
  std::string file;    // path of the library
  size_t version = 0;  // like CUDNN_VERSION: 91900
};

// The first version that can plan for a device that is only described.
inline constexpr size_t kMinDnnVersion = 90800;

// Returns the functions; the first call loads the library like blas(). Throws DeviceError if there
// is none. Throws VersionMismatch if it lacks a function, has another major version than at build
// time or is older than kMinDnnVersion, or if one of its parts would end the process: a truncated
// part, or no loadable part `graph`. Thread-safe.
const Dnn& dnn();
const VendorLibrary& dnn_library();
// Throws VersionMismatch if a part of cuDNN that plans need is damaged, missing or of another
// version than the others. The first call tries all parts. Call it if a bad part would explain an
// answer of cuDNN.
void require_dnn_parts();

// Throws "<call>: <vendor's text> (<status>: <cuDNN's last error>); ..." unless the code is
// success: OutOfMemory if an allocation failed, VersionMismatch if cuDNN's parts do not fit
// together, DeviceLost if a kernel made the device unusable, else DeviceError.
void cuda_check(cudnnStatus_t code, std::string_view call);

// Owns a descriptor: set attributes, finalize, pass it to others. Throws what cuda_check() throws.
class DnnDescriptor {
 public:
  explicit DnnDescriptor(cudnnBackendDescriptorType_t type);
  ~DnnDescriptor();
  DnnDescriptor(DnnDescriptor&& from) noexcept : handle_(std::exchange(from.handle_, nullptr)) {}
  DnnDescriptor& operator=(DnnDescriptor&& from) noexcept {
    std::swap(handle_, from.handle_);
    return *this;
  }

  cudnnBackendDescriptor_t handle() const { return handle_; }

  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     int64_t count, const void* values);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const DnnDescriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
  }
  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    return set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  }
  DnnDescriptor& set(cudnnBackendAttributeName_t name, std::initializer_list<int64_t> values) {
    return set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.begin());
  }
  // Reads up to `most` values; returns the number of existing values.
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
              void* values) const;
  int64_t get_integer(cudnnBackendAttributeName_t name) const;
  std::string get_text(cudnnBackendAttributeName_t name) const;

  DnnDescriptor& finalize();
  // Returns false if cuDNN does not support the descriptor. Throws only if cuDNN could not decide:
  // out of memory, or a part is missing.
  bool try_finalize();

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

}  // namespace tessera
