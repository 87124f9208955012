#include "tessera/runtime/cuda/dnn.h"

#include <algorithm>
#include <map>

#include <dlfcn.h>
#include <fmt/format.h>

#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/shared_library.h"

namespace tessera {
namespace {

// The parts of cuDNN 9, and the variable in each with its version. The first call of cuDNN loads
// the first part, which all others need. cuDNN ends the process if it cannot load the first, and
// makes no plans, without an error, if it cannot load one of the next two.
struct Part {
  const char *name, *version;
  bool needed;  // to plan a convolution
};
constexpr Part kParts[] = {
    {"graph", "cudnn_graph_version", true},    {"heuristic", "", true},
    {"engines_precompiled", "", true},         {"engines_runtime_compiled", "", true},
    {"ops", "cudnn_ops_infer_version", false}, {"cnn", "", false},
    {"adv", "cudnn_adv_infer_version", false}};

constexpr const char* kRemedy =
    "reinstall cuDNN with all parts of one version, or remove the folder of the other parts from "
    "LD_LIBRARY_PATH; run trainer doctor to list the copies";

std::string file_of(const Part& part) {
  return fmt::format("libcudnn_{}.so.{}", part.name, CUDNN_MAJOR);
}

std::vector<std::string> copies_of(const Part& part) {
  return library_copies(file_of(part), {}, dnn_library().name);
}

bool can_load(const std::string& file) {
  return dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL) != nullptr;
}

void require_parts_to_start() {
  for (const Part& part : kParts) {
    const std::vector<std::string> copies = copies_of(part);
    const std::string cut_off = copies.empty() || !part.needed ? "" : cut_off_text(copies[0]);
    if (!cut_off.empty())
      throw VersionMismatch(fmt::format("cuDNN: '{}' {}; {}", copies[0], cut_off, kRemedy));
  }
  const std::vector<std::string> copies = copies_of(kParts[0]);
  if (std::none_of(copies.begin(), copies.end(), can_load) && !can_load(file_of(kParts[0])))
    throw VersionMismatch(fmt::format("cuDNN: its part {} cannot be loaded: {}; {}",
                                      file_of(kParts[0]), dlerror(), kRemedy));
}

bool out_of_memory(cudnnStatus_t code) {
  return code == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
         code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

// True if the parts of cuDNN, which are separate files, do not fit together.
bool broken_library(cudnnStatus_t code) {
  return code == CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH ||
         code == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED;
}

}  // namespace

const VendorLibrary& dnn_library() {
  static const VendorLibrary about{
      "cuDNN", fmt::format("libcudnn.so.{}", CUDNN_MAJOR), TESSERA_CUDNN_FOLDER, CUDNN_VERSION,
      fmt::format("install cuDNN of major version {}, 9.8 or newer (Debian, from NVIDIA's "
                  "repository: libcudnn9-cuda-13; PyPI: nvidia-cudnn-cu13)",
                  CUDNN_MAJOR)};
  return about;
}

const Dnn& dnn() {
  static const Dnn* const found = [] {  // if this throws, the next call tries again
    LoadedLibrary library(dnn_library());
    auto* made = new Dnn;  // never destroyed: contexts may outlive main
#define TESSERA_DNN_FIND(name) library.find(made->name, #name);
    TESSERA_DNN_FUNCTIONS(TESSERA_DNN_FIND)
#undef TESSERA_DNN_FIND
    made->file = library.file();
    require_parts_to_start();
    made->version = made->cudnnGetVersion();
    library.check_version(made->version, kMinDnnVersion);
    return made;
  }();
  return *found;
}

std::vector<CudaPart> cuda_dnn_parts() {
  std::vector<CudaPart> parts;
  if (loaded_library(dnn_library().name).empty()) return parts;
  std::map<std::string, int> votes;
  std::string usual;  // the version of most parts
  for (const Part& about : kParts) {
    CudaPart part{file_of(about), {}, "", about.needed};
    const std::string graph =
        parts.empty() || parts[0].copies.empty() ? "" : parts[0].copies[0].file;
    for (const std::string& file : copies_of(about)) {
      const LibraryTrial trial = try_library(file, graph, about.version);
      const int v = trial.value;  // 0x91300 is 9.19.0
      part.copies.push_back(
          {file, v == 0 ? "" : fmt::format("{}.{}.{}", v >> 16, v >> 8 & 255, v & 255)});
      if (part.copies.size() == 1) part.fault = trial.fault;
    }
    if (part.copies.empty() && about.needed) part.fault = "is missing";
    if (!part.copies.empty() && part.copies[0].version != "" &&
        ++votes[part.copies[0].version] > votes[usual])
      usual = part.copies[0].version;
    parts.push_back(std::move(part));
  }
  for (CudaPart& part : parts) {
    const std::string version = part.copies.empty() ? "" : part.copies[0].version;
    if (!version.empty() && version != usual)
      part.fault = fmt::format("is version {}, but the other parts are version {}", version, usual);
    else if (&part != &parts[0] && !parts[0].fault.empty())
      part.fault = "";  // caused by the first part
  }
  return parts;
}

void require_dnn_parts() {
  static const std::string fault = [] {
    for (const CudaPart& part : cuda_dnn_parts())
      if (part.needed && !part.fault.empty())
        return fmt::format("cuDNN: its part '{}' cannot be used: {}; {}",
                           part.copies.empty() ? part.name : part.copies[0].file, part.fault,
                           kRemedy);
    return std::string();
  }();
  if (!fault.empty()) throw VersionMismatch(fault);
}

void cuda_check(cudnnStatus_t code, std::string_view call) {
  if (code == CUDNN_STATUS_SUCCESS) return;
  const Dnn& library = dnn();  // already loaded, as it returned the code
  char last[1024] = "";
  library.cudnnGetLastErrorString(last, sizeof last);
  const std::string text = fmt::format(
      "{}: {} ({}{}{}); the cuDNN in use is version {}, from '{}'; Tessera was built with {}", call,
      library.cudnnGetErrorString(code), static_cast<int>(code), last[0] != '\0' ? ": " : "", last,
      cuda_version_text(library.version, 10000), library.file,
      cuda_version_text(CUDNN_VERSION, 10000));
  if (out_of_memory(code)) throw OutOfMemory(text);
  if (broken_library(code)) require_dnn_parts();
  if (broken_library(code)) throw VersionMismatch(text);
  // If a kernel failed, the CUDA runtime reports whether the device is lost.
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
  return text.substr(0, text.find('\0'));  // the count includes the terminating null
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
