// Names and texts of the codes that the engine meets.
#include <algorithm>
#include <iterator>

#include <cuda_runtime_api.h>

namespace {

struct Named {
  cudaError_t code;
  const char *name, *text;
};
#define NAMED(code, text) \
  { code, #code, text }
constexpr Named kNamed[] = {
    NAMED(cudaSuccess, "no error"),
    NAMED(cudaErrorInvalidValue, "invalid argument"),
    NAMED(cudaErrorMemoryAllocation, "out of memory"),
    NAMED(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    NAMED(cudaErrorInsufficientDriver, "the driver is older than the runtime"),
    NAMED(cudaErrorNoDevice, "no device"),
    NAMED(cudaErrorInvalidDevice, "invalid device ordinal"),
    NAMED(cudaErrorECCUncorrectable, "uncorrectable memory error"),
    NAMED(cudaErrorUnsupportedPtxVersion, "PTX of an unsupported toolchain"),
    NAMED(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    NAMED(cudaErrorIllegalState, "not permitted in this state"),
    NAMED(cudaErrorNotReady, "not ready"),
    NAMED(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    NAMED(cudaErrorLaunchFailure, "a kernel failed"),
    NAMED(cudaErrorNotSupported, "not supported"),
    NAMED(cudaErrorUnknown, "unknown error"),
    NAMED(cudaErrorStreamCaptureUnsupported, "not permitted while a stream is capturing"),
    NAMED(cudaErrorStreamCaptureInvalidated, "the capture failed before"),
    NAMED(cudaErrorStreamCaptureMerge, "two captures would become one"),
    NAMED(cudaErrorStreamCaptureUnmatched, "the capture began on another stream"),
    NAMED(cudaErrorStreamCaptureUnjoined, "a stream of the capture was not joined"),
    NAMED(cudaErrorStreamCaptureIsolation, "a capture waits for what is outside it"),
    NAMED(cudaErrorStreamCaptureWrongThread, "the capture began in another thread"),
    NAMED(cudaErrorCapturedEvent, "the event was last recorded in a capture"),
};
#undef NAMED

const Named* find(cudaError_t code) {
  const Named* const found = std::find_if(std::begin(kNamed), std::end(kNamed),
                                          [&](const Named& n) { return n.code == code; });
  return found == std::end(kNamed) ? nullptr : found;
}

}  // namespace

extern "C" {

const char* cudaGetErrorName(cudaError_t code) {
  const Named* const named = find(code);
  return named == nullptr ? "unrecognized error code" : named->name;
}

const char* cudaGetErrorString(cudaError_t code) {
  const Named* const named = find(code);
  return named == nullptr ? "unrecognized error code" : named->text;
}
}
