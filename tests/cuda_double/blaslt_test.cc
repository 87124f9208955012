// cuBLASLt on the double, called through the engine.
#include <cstdint>

#include "testing.h"

#include "tessera/runtime/cuda/blas.h"

namespace cuda_double_tests {
namespace {

using tessera::blas;

constexpr uint64_t kRows = 3, kColumns = 5, kInner = 4;

class Blas : public WithSchedule {
 protected:
  void SetUp() override {
    WithSchedule::SetUp();
    ASSERT_EQ(blas().cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
    make(d, kRows, kColumns);
    make(a, kRows, kInner);
    make(b, kInner, kColumns);
    ASSERT_EQ(blas().cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(blas().cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
    std::vector<float> left(kRows * kInner), right(kInner * kColumns), add(kRows);
    for (size_t i = 0; i < left.size(); ++i) left[i] = static_cast<float>(i) - 5;
    for (size_t i = 0; i < right.size(); ++i) right[i] = static_cast<float>(i % 7);
    for (size_t i = 0; i < add.size(); ++i) add[i] = 100 * static_cast<float>(i + 1);
    A.put(left, stream);
    B.put(right, stream);
    bias.put(add, stream);
    for (size_t j = 0; j < kColumns; ++j)
      for (size_t i = 0; i < kRows; ++i) {
        float sum = 0;
        for (size_t l = 0; l < kInner; ++l) sum += left[l * kRows + i] * right[j * kInner + l];
        right_[j * kRows + i] = sum;
      }
  }
  void TearDown() override {
    for (auto layout : {a, b, d}) blas().cublasLtMatrixLayoutDestroy(layout);
    blas().cublasLtMatmulPreferenceDestroy(preference);
    blas().cublasLtMatmulDescDestroy(product);
    blas().cublasLtDestroy(handle);
    WithSchedule::TearDown();
  }

  static void make(cublasLtMatrixLayout_t& layout, uint64_t rows, uint64_t columns) {
    ASSERT_EQ(blas().cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, rows, columns,
                                                static_cast<int64_t>(rows)),
              CUBLAS_STATUS_SUCCESS);
  }
  template <class T>
  cublasStatus_t describe(cublasLtMatmulDescAttributes_t which, T value) const {
    return blas().cublasLtMatmulDescSetAttribute(product, which, &value, sizeof value);
  }
  template <class T>
  cublasStatus_t prefer(cublasLtMatmulPreferenceAttributes_t which, T value) const {
    return blas().cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value);
  }
  cublasLtMatmulHeuristicResult_t choose() const {
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    EXPECT_EQ(blas().cublasLtMatmulAlgoGetHeuristic(handle, product, a, b, d, d, preference, 1,
                                                    &found, &count),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(count, 1);
    return found;
  }
  cublasStatus_t run(const cublasLtMatmulHeuristicResult_t& how, void* scratch, size_t bytes,
                     const float* from) const {
    const float one = 1, zero = 0;
    return blas().cublasLtMatmul(handle, product, &one, from, a, B.data, b, &zero, D.data, d,
                                 D.data, d, &how.algo, scratch, bytes, stream);
  }

  Stream stream;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  OnDevice<float> A{kRows * kInner + 1}, B{kInner * kColumns}, D{kRows * kColumns}, bias{kRows + 1};
  OnDevice<char> workspace{4096};
  std::vector<float> right_ = std::vector<float>(kRows * kColumns);
};

IN_EVERY_SCHEDULE(Blas);

// cuBLASLt, CUBLASLT_EPILOGUE_BIAS: the vector has an element for each row of D, is broadcast to
// all columns and added after the product.
TEST_P(Blas, ABiasIsAddedToEachRow) {
  const auto plain = choose();
  ASSERT_EQ(run(plain, nullptr, 0, A.data), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(D.get(stream), right_);
  ASSERT_EQ(describe(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_BIAS}),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(plain, nullptr, 0, A.data), CUBLAS_STATUS_INVALID_VALUE) << "no vector";
  ASSERT_EQ(describe(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data), CUBLAS_STATUS_SUCCESS);
  cublasLtMatmulHeuristicResult_t checked{};
  ASSERT_EQ(blas().cublasLtMatmulAlgoCheck(handle, product, a, b, d, d, &plain.algo, &checked),
            CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(run(plain, nullptr, 0, A.data), CUBLAS_STATUS_SUCCESS);
  std::vector<float> expected = right_;
  for (size_t i = 0; i < expected.size(); ++i)
    expected[i] += 100 * static_cast<float>(i % kRows + 1);
  EXPECT_EQ(D.get(stream), expected);
  // Preferences give the alignments of A, B, C and D, not that of the vector.
  describe(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data + 1);
  EXPECT_EQ(run(plain, nullptr, 0, A.data), CUBLAS_STATUS_INVALID_VALUE);
}

// cuBLASLt, CUBLAS_COMPUTE_32F_FAST_TF32: factors have ten bits of mantissa; sums have more.
TEST_P(Blas, Tf32RoundsTheFactors) {
  blas().cublasLtMatmulDescDestroy(product);
  ASSERT_EQ(blas().cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F),
            CUBLAS_STATUS_SUCCESS);
  std::vector<float> left(A.count, 0), right(B.count, 1);
  left[0] = 1 + 0x1p-10F, left[1] = 1 + 0x1p-11F + 0x1p-20F, left[2] = 1 + 0x1p-12F;
  A.put(left, stream);
  B.put(right, stream);
  ASSERT_EQ(run(choose(), nullptr, 0, A.data), CUBLAS_STATUS_SUCCESS);
  const std::vector<float> found = D.get(stream);
  EXPECT_EQ(found[0], left[0]);
  EXPECT_EQ(found[1], left[0]);
  EXPECT_EQ(found[2], 1);
}

// cuBLASLt, cublasLtMatmulAlgoCheck(): if it fails, the algorithm will not run.
TEST_P(Blas, AnAlgorithmNeedNotTakeAnEpilogue) {
  for (auto layout : {a, d}) blas().cublasLtMatrixLayoutDestroy(layout);
  make(a, 1, kInner);
  make(d, 1, kColumns);
  const auto plain = choose();
  describe(CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{CUBLASLT_EPILOGUE_BIAS});
  describe(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data);
  cublasLtMatmulHeuristicResult_t checked{};
  EXPECT_EQ(blas().cublasLtMatmulAlgoCheck(handle, product, a, b, d, d, &plain.algo, &checked),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(run(plain, nullptr, 0, A.data), CUBLAS_STATUS_NOT_SUPPORTED);
}

// cuBLASLt, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: 256 by default.
TEST_P(Blas, MatricesAreAlignedAsWasSaid) {
  const auto aligned = choose();
  EXPECT_EQ(run(aligned, nullptr, 0, A.data), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(aligned, nullptr, 0, A.data + 1), CUBLAS_STATUS_INVALID_VALUE);
  ASSERT_EQ(prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, uint32_t{4}), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(choose(), nullptr, 0, A.data + 1), CUBLAS_STATUS_SUCCESS);
}

// cuBLASLt, cublasLtMatmul(): a workspace is refused if it is smaller than the algorithm needs or
// does not start at a multiple of 256 bytes.
TEST_P(Blas, TheWorkspaceIsAsLargeAsTheAlgorithmNeeds) {
  EXPECT_EQ(choose().workspaceSize, 0u) << "none, where nothing is said";
  ASSERT_EQ(prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{1024}),
            CUBLAS_STATUS_SUCCESS);
  const auto found = choose();
  ASSERT_LE(found.workspaceSize, 1024u);
  ASSERT_GT(found.workspaceSize, 0u);
  EXPECT_EQ(run(found, workspace.data, 1024, A.data), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(D.get(stream), right_);
  EXPECT_EQ(workspace.get(stream)[1023], '\xff') << "what is left there is of no use";
  EXPECT_EQ(run(found, workspace.data, 1023, A.data), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run(found, workspace.data + 64, 1024, A.data), CUBLAS_STATUS_INVALID_VALUE);
}

// Everything that is not modelled here is refused.
TEST_P(Blas, WhatIsNotKnownIsRefused) {
  for (const auto epilogue : {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS,
                              CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_BGRADA})
    EXPECT_EQ(describe(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue)),
              CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(describe(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, int64_t{1}),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(describe(CUBLASLT_MATMUL_DESC_EPILOGUE, uint64_t{CUBLASLT_EPILOGUE_BIAS}),
            CUBLAS_STATUS_INVALID_VALUE)
      << "of another size";
  EXPECT_EQ(prefer(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, 1.0F), CUBLAS_STATUS_NOT_SUPPORTED);
  cublasLtMatmulDesc_t made = nullptr;
  EXPECT_EQ(blas().cublasLtMatmulDescCreate(&made, CUBLAS_COMPUTE_16F, CUDA_R_16F),
            CUBLAS_STATUS_NOT_SUPPORTED);
}

}  // namespace
}  // namespace cuda_double_tests
