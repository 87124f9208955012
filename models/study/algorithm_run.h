// One algorithm of an op by itself, on operands of random numbers: to time it and to look at what
// it computes.
#pragma once

#include <memory>
#include <vector>

#include "tessera/engine/op.h"
#include "tessera/engine/storage.h"

namespace tessera {

// On the CPU, with the threads of cpu_context(). Not thread-safe.
class AlgorithmRun {
 public:
  // `in` are the op's inputs; what is not of floats is zeros. With `like`, they are its operands,
  // cast.
  AlgorithmRun(const Op& op, const Specs& in, const Algorithm& algorithm,
               const AlgorithmRun* like = nullptr);

  void run() { kernel_->run(cpu_context(), in_, out_, {scratch_->pointer, {}}); }
  template <class T>
  const T* result() const {
    return out_[0].as<T>();
  }

 private:
  void add(const Tensor& tensor, std::vector<Buffer>& to);

  std::unique_ptr<Kernel> kernel_;
  std::shared_ptr<Storage> scratch_;
  Tensors tensors_;
  std::vector<Buffer> in_, out_;
};

}  // namespace tessera
