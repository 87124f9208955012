#include "tessera/layers/conv2d/cuda/plan_run.h"

#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"

namespace tessera {

void ConvPlanRun::run(CudaContext& where, const ConvPointers& now) {
  if (!pack_ || !(now == packed_)) make_pack(now);
  CudaDeviceGuard guard(where.index());
  cuda_check(dnn().cudnnBackendExecute(where.dnn(), plan_.handle(), pack_->handle()),
             "cudnnBackendExecute");
}

void ConvPlanRun::make_pack(const ConvPointers& now) {
  // As ConvPass lists inputs and output.
  constexpr int64_t kIds[][3] = {
      {kConvX, kConvW, kConvY}, {kConvY, kConvW, kConvX}, {kConvX, kConvY, kConvW}};
  void* data[] = {now.a, now.b, now.out};
  DnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, kIds[static_cast<int>(pass_)])
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, data)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &now.scratch)
      .finalize();
  pack_ = std::move(pack);
  packed_ = now;
}

}  // namespace tessera
