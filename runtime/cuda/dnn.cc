#include "tessera/runtime/cuda/dnn.h"

#include <atomic>

#include <fmt/format.h>

#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/cuda/vendor_library.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

std::atomic<const Dnn*> loaded{nullptr};

const Dnn* load() {
  LoadedLibrary library(
      {"cuDNN", cuda_dnn_name(), cuda_dnn_build_folder(), CUDNN_VERSION,
       fmt::format("install cuDNN of major version {}, 9.8 or newer (Debian, from "
                   "NVIDIA's repository: libcudnn9-cuda-13; PyPI: "
                   "nvidia-cudnn-cu13)",
                   CUDNN_MAJOR)});
  auto* found = new Dnn;  // never destroyed: contexts may outlive main
#define TESSERA_DNN_FIND(name) library.find(found->name, #name);
  TESSERA_DNN_FUNCTIONS(TESSERA_DNN_FIND)
#undef TESSERA_DNN_FIND
  found->file = library.file();
  found->version = found->cudnnGetVersion();
  library.check_version(found->version, kLeastDnnVersion);
  loaded = found;
  return found;
}

bool out_of_memory(cudnnStatus_t code) {
  return code == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
         code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

// Of the library with itself: its parts are files of their own.
bool broken_library(cudnnStatus_t code) {
  return code == CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH ||
         code == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED;
}

}  // namespace

const Dnn& dnn() {
  static const Dnn* const found = load();  // where it throws, the next call tries again
  return *found;
}

const Dnn* loaded_dnn() { return loaded; }

void cuda_check(cudnnStatus_t code, std::string_view call) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  const Dnn& library = dnn();  // which is loaded: it gave the code
  char last[1024] = "";
  library.cudnnGetLastErrorString(last, sizeof last);
  const std::string text = fmt::format(
      "{}: {} ({}{}{}); the cuDNN in use is version {}, from '{}'; this was built with {}", call,
      library.cudnnGetErrorString(code), static_cast<int>(code), last[0] != '\0' ? ": " : "", last,
      cuda_version_text(library.version, 10000), library.file,
      cuda_version_text(CUDNN_VERSION, 10000));
  if (out_of_memory(code)) throw OutOfMemory(text);
  if (broken_library(code)) throw VersionMismatch(text);
  // Where a kernel failed, the runtime knows whether that was the end of the device.
  if (CUDNN_STATUS_CATEGORY(code) == CUDNN_STATUS_EXECUTION_FAILED)
    cuda_check(cudaPeekAtLastError(), call);
  throw DeviceError(text);
}

DnnDescriptor::DnnDescriptor(cudnnBackendDescriptorType_t type) {
  cuda_check(dnn().cudnnBackendCreateDescriptor(type, &handle_), "cudnnBackendCreateDescriptor");
}

DnnDescriptor::~DnnDescriptor() {
  if (handle_ != nullptr) dnn().cudnnBackendDestroyDescriptor(handle_);
}

DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type, int64_t count,
                                  const void* values) {
  cuda_check(dnn().cudnnBackendSetAttribute(handle_, name, type, count, values),
             "cudnnBackendSetAttribute");
  return *this;
}

DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name, const DnnDescriptor& value) {
  return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
}

DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  return set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

DnnDescriptor& DnnDescriptor::set(cudnnBackendAttributeName_t name,
                                  std::initializer_list<int64_t> values) {
  return set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.begin());
}

int64_t DnnDescriptor::get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                           int64_t most, void* values) const {
  int64_t count = 0;
  cuda_check(dnn().cudnnBackendGetAttribute(handle_, name, type, most, &count, values),
             "cudnnBackendGetAttribute");
  return count;
}

int64_t DnnDescriptor::get_integer(cudnnBackendAttributeName_t name) const {
  int64_t value = 0;
  get(name, CUDNN_TYPE_INT64, 1, &value);
  return value;
}

std::string DnnDescriptor::get_text(cudnnBackendAttributeName_t name) const {
  std::string text(static_cast<size_t>(get(name, CUDNN_TYPE_CHAR, 0, nullptr)), '\0');
  get(name, CUDNN_TYPE_CHAR, static_cast<int64_t>(text.size()), text.data());
  return text.substr(0, text.find('\0'));  // the count includes the end of a C string
}

DnnDescriptor& DnnDescriptor::finalize() {
  cuda_check(dnn().cudnnBackendFinalize(handle_), "cudnnBackendFinalize");
  return *this;
}

bool DnnDescriptor::try_finalize() {
  const cudnnStatus_t code = dnn().cudnnBackendFinalize(handle_);
  if (out_of_memory(code) || broken_library(code)) cuda_check(code, "cudnnBackendFinalize");
  return code == CUDNN_STATUS_SUCCESS;
}

}  // namespace tessera
