#include "tessera/layers/conv2d/cuda/plans.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"

namespace tessera {

namespace {

// cuDNN orders axes as n, c, h, w; the strides give their order in memory.
DnnDescriptor tensor(const ConvRequest& request, int64_t id, int64_t n, int64_t h, int64_t w,
                     int64_t c) {
  const cudnnDataType_t type = request.dtype == DType::bf16  ? CUDNN_DATA_BFLOAT16
                               : request.dtype == DType::f16 ? CUDNN_DATA_HALF
                                                             : CUDNN_DATA_FLOAT;
  DnnDescriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, {n, c, h, w})
      .set(CUDNN_ATTR_TENSOR_STRIDES, {h * w * c, 1, w * c, c})
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, {id})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {request.alignment})
      .finalize();
  return made;
}

DnnDescriptor convolution(const ConvShape& s) {
  DnnDescriptor made(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  made.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {s.pad_h, s.pad_w})
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {s.pad_h, s.pad_w})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {s.dilation_h, s.dilation_w})
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {s.stride_h, s.stride_w})
      .finalize();
  return made;
}

// The names of a pass's attributes.
struct Names {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, convolution, x, w, y;
};

Names names_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case ConvPass::input_grad:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    case ConvPass::weight_grad:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
}

}  // namespace

bool conv_may_have_plan(const ConvRequest& request) {
  const ConvShape& s = request.shape;
  return request.dtype != DType::f64 &&
         std::min({s.n, s.h, s.w, s.c, s.o, s.out_h(), s.out_w()}) > 0;
}

GpuSettings conv_settings(const ConvRequest& request, const GpuSettings& settings) {
  GpuSettings of = settings;
  of.tf32 = settings.tf32 || is_half(request.dtype);
  return of;
}

std::string conv_plan_text(const ConvRequest& request) {
  return fmt::format("{} {} alignment {}", conv_text(request), name_of(request.dtype),
                     request.alignment);
}

std::optional<DnnDescriptor> conv_graph(const ConvRequest& request) {
  const ConvShape& s = request.shape;
  if (!conv_may_have_plan(request)) return std::nullopt;
  const Names names = names_of(request.pass);
  const float one = 1, zero = 0;
  DnnDescriptor operation(names.type);
  operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1, &one)
      .set(names.beta, CUDNN_TYPE_FLOAT, 1, &zero)
      .set(names.convolution, convolution(s))
      .set(names.x, tensor(request, kConvX, s.n, s.h, s.w, s.c))
      .set(names.w, tensor(request, kConvW, s.o, s.kh, s.kw, s.c / s.groups))
      .set(names.y, tensor(request, kConvY, s.n, s.out_h(), s.out_w(), s.o));
  if (!operation.try_finalize()) return std::nullopt;
  DnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  if (!graph.try_finalize()) return std::nullopt;
  return graph;
}

void ConvPlanRun::run(CudaContext& ctx, const ConvPointers& now) {
  if (!pack_ || !(now == packed_)) make_pack(now);
  CudaDeviceGuard guard(ctx.index());
  cuda_check(dnn().cudnnBackendExecute(ctx.dnn(), plan_.handle(), pack_->handle()),
             "cudnnBackendExecute");
}

void ConvPlanRun::make_pack(const ConvPointers& now) {
  // Inputs and output, by ConvPass.
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
