#include "tessera/layers/conv2d_cpu.h"

#include "tessera/layers/conv2d_gather.h"
#include "tessera/layers/conv2d_weight_grad.h"

namespace tessera {

size_t conv2d_scratch(const ConvShape& shape, size_t element, int threads) {
  const GatherPlan plan = plan_gather(shape, false, element);
  return element == sizeof(float) ? gather_scratch<float>(plan, threads)
                                  : gather_scratch<double>(plan, threads);
}

size_t conv2d_input_grad_scratch(const ConvShape& shape, size_t element, int threads) {
  const GatherPlan plan = plan_gather(shape, true, element);
  return element == sizeof(float) ? gather_scratch<float>(plan, threads)
                                  : gather_scratch<double>(plan, threads);
}

size_t conv2d_weight_grad_scratch(const ConvShape& shape, size_t element, int threads) {
  return element == sizeof(float)
             ? weight_grad_scratch<float>(plan_weight_grad<float>(shape), threads)
             : weight_grad_scratch<double>(plan_weight_grad<double>(shape), threads);
}

template <class T>
void conv2d(ThreadPool& pool, const ConvShape& shape, const T* x, const T* w, T* y, void* scratch,
            const Epilogue<T>* epilogue) {
  run_gather(pool, plan_gather(shape, false, sizeof(T)), x, w, y, scratch, epilogue);
}

template <class T>
void conv2d_input_grad(ThreadPool& pool, const ConvShape& shape, const T* dy, const T* w, T* dx,
                       void* scratch, const Epilogue<T>* epilogue) {
  run_gather(pool, plan_gather(shape, true, sizeof(T)), dy, w, dx, scratch, epilogue);
}

template <class T>
void conv2d_weight_grad(ThreadPool& pool, const ConvShape& shape, const T* x, const T* dy, T* dw,
                        void* scratch) {
  run_weight_grad(pool, plan_weight_grad<T>(shape), x, dy, dw, scratch);
}

#define TESSERA_CONV2D(T)                                                                       \
  template void conv2d(ThreadPool&, const ConvShape&, const T*, const T*, T*, void*,            \
                       const Epilogue<T>*);                                                     \
  template void conv2d_input_grad(ThreadPool&, const ConvShape&, const T*, const T*, T*, void*, \
                                  const Epilogue<T>*);                                          \
  template void conv2d_weight_grad(ThreadPool&, const ConvShape&, const T*, const T*, T*, void*);
TESSERA_CONV2D(float)
TESSERA_CONV2D(double)

}  // namespace tessera
