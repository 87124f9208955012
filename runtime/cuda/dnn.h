// cuDNN's backend C API, loaded when it is first used, and its descriptors with an owner. For files
// of the GPU back end only: it includes the vendor's header.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <cudnn_backend.h>

namespace tessera {

// The functions that are called, by the vendor's names.
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
  std::string file;    // that it was loaded from
  size_t version = 0;  // as CUDNN_VERSION is written: 91900
};

// The first version that answers for a device which is only described.
inline constexpr size_t kMinDnnVersion = 90800;

// Loads it at the first call, as blas() does. Throws DeviceError where there is none;
// VersionMismatch where it lacks a function, is of another major version than this was built with,
// or older than kMinDnnVersion, and where a part of it would end the process: one that is cut
// off, or no part `graph` that can be loaded. Thread-safe.
const Dnn& dnn();
// Whether a call of dnn() has loaded it.
const Dnn* loaded_dnn();
// Throws VersionMismatch if a part of cuDNN that plans need is damaged, missing or of another
// version than the others. For answers that such a part would explain: tries all parts at the first
// call.
void require_dnn_parts();

// Throws "<call>: <vendor's text> (<status>: <what cuDNN says of its last error>); ..." unless the
// code is success: OutOfMemory where it had no memory, VersionMismatch where its parts do not fit
// together, DeviceLost where a kernel brought the device down, else DeviceError.
void cuda_check(cudnnStatus_t code, std::string_view call);

// A descriptor: set attributes, finalise, hand to others. Calls throw what cuda_check() throws.
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
  DnnDescriptor& set(cudnnBackendAttributeName_t name, const DnnDescriptor& value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  DnnDescriptor& set(cudnnBackendAttributeName_t name, std::initializer_list<int64_t> values);
  // Reads up to `most` values; returns how many there are.
  int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
              void* values) const;
  int64_t get_integer(cudnnBackendAttributeName_t name) const;
  std::string get_text(cudnnBackendAttributeName_t name) const;

  DnnDescriptor& finalize();
  // False where it cannot be made: not supported is an answer. Throws only where cuDNN could not
  // look: no memory, a part of it missing.
  bool try_finalize();

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

}  // namespace tessera
