// Computes dense layers by cuBLASLt, with the bias in the matrix product's epilogue. Leaves other
// shapes, and dense layers that cuBLASLt cannot compute, to another library.
#include "worker/engine/cuda/cudnn/cublas.h"

#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "kernels/device/tiling.h"
#include "worker/device/device.h"
#include "worker/engine/cuda/cudnn/vendor.h"

namespace tern::engine::cuda {
namespace {

constexpr size_t kMaxWorkspaceBytes = size_t{32} << 20;

Status CheckBlas(cublasStatus_t status, const std::string& call) {
  if (status == CUBLAS_STATUS_SUCCESS) return Ok();
  return Status(Code::kPeerLost, Cat(call, ": ", TheCublasLt().GetStatusString(status)));
}

using Handle = std::shared_ptr<cublasLtContext>;
struct Destroy {
  void operator()(cublasLtMatmulDesc_t matmul) const { TheCublasLt().MatmulDescDestroy(matmul); }
  void operator()(cublasLtMatrixLayout_t layout) const {
    TheCublasLt().MatrixLayoutDestroy(layout);
  }
  void operator()(cublasLtMatmulPreference_t preference) const {
    TheCublasLt().MatmulPreferenceDestroy(preference);
  }
};
using Matmul = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy>;
using Layout = std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy>;
using Preference = std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy>;

cudaDataType_t DataTypeOf(kernels::DeviceType type) {
  switch (type) {
    case kernels::DeviceType::kBfloat:
      return CUDA_R_16BF;
    case kernels::DeviceType::kHalf:
      return CUDA_R_16F;
    case kernels::DeviceType::kFloat:
      break;
  }
  return CUDA_R_32F;
}

// A matrix product in cuBLAS's terms. Our arrays are row-major and cuBLAS's matrices column-major,
// so that cuBLAS sees the transpose of each array, and the factors change places. For x [rows, in],
// weights [out, in] and y [rows, out] (where ^T is the transpose, and ' asks cuBLAS to transpose
// what it sees) the passes compute (in the backward passes, y and the result are gradients):
//
//   forward            y^T = (weights^T)' x^T      (out x in) times (in x rows)
//   backward data      x^T = weights^T y^T         (in x out) times (out x rows)
//   backward weights   weights^T = x^T (y^T)'      (in x rows) times (rows x out)
struct Product {
  uint64_t m, n;        // The rows and columns of the result.
  uint64_t a[2], b[2];  // The rows and columns of the factors as they are stored.
  bool transposes_a, transposes_b;
};

Product ProductOf(uint64_t rows, uint64_t in, uint64_t out, ConvPass pass) {
  switch (pass) {
    case ConvPass::kBackwardData:
      return {in, rows, {in, out}, {out, rows}, false, false};
    case ConvPass::kBackwardWeights:
      return {in, out, {in, rows}, {out, rows}, false, true};
    case ConvPass::kForward:
      break;
  }
  return {out, rows, {in, out}, {in, rows}, true, false};
}

class DensePlan : public ConvPlan {
 public:
  DensePlan(Handle handle, const ConvShape& shape, ConvPass pass)
      : handle_(std::move(handle)), shape_(shape), pass_(pass) {}

  // Makes the descriptors of the product and chooses an algorithm. kPeerLost if cuBLASLt has no
  // algorithm for the shape.
  Status Make();
  size_t workspace_bytes() const override { return algorithm_.workspaceSize; }
  Status Run(kernels::DeviceStream stream, const ConvData& data) override;

 private:
  bool AddsBias() const { return pass_ == ConvPass::kForward && shape_.has_bias; }
  Status MakeMatmul(const Product& product);
  Status MakeLayout(const uint64_t (&dims)[2], Layout* layout);
  Status FindAlgorithm();
  template <typename T>
  Status SetAttribute(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    return CheckBlas(
        TheCublasLt().MatmulDescSetAttribute(matmul_.get(), attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
  }

  const Handle handle_;
  const ConvShape shape_;
  const ConvPass pass_;
  Matmul matmul_;
  Layout a_, b_, result_;
  cublasLtMatmulHeuristicResult_t algorithm_ = {};  // The chosen algorithm, and its workspace.
};

Status DensePlan::Make() {
  const auto& [in, out, window] = shape_.slide;
  const Product product = ProductOf(in.n, in.c, out.c, pass_);
  TERN_RETURN_IF_ERROR(MakeMatmul(product));
  TERN_RETURN_IF_ERROR(MakeLayout(product.a, &a_));
  TERN_RETURN_IF_ERROR(MakeLayout(product.b, &b_));
  TERN_RETURN_IF_ERROR(MakeLayout({product.m, product.n}, &result_));
  return FindAlgorithm();
}

Status DensePlan::MakeMatmul(const Product& product) {
  cublasLtMatmulDesc_t new_matmul = nullptr;
  TERN_RETURN_IF_ERROR(CheckBlas(
      TheCublasLt().MatmulDescCreate(
          &new_matmul, shape_.allows_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
          CUDA_R_32F),
      "cublasLtMatmulDescCreate"));
  matmul_.reset(new_matmul);
  const auto operation = [](bool transposes) { return transposes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  TERN_RETURN_IF_ERROR(SetAttribute(CUBLASLT_MATMUL_DESC_TRANSA, operation(product.transposes_a)));
  TERN_RETURN_IF_ERROR(SetAttribute(CUBLASLT_MATMUL_DESC_TRANSB, operation(product.transposes_b)));
  if (!AddsBias()) return Ok();
  TERN_RETURN_IF_ERROR(SetAttribute(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, DataTypeOf(shape_.type)));
  return SetAttribute(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
}

Status DensePlan::MakeLayout(const uint64_t (&dims)[2], Layout* layout) {
  cublasLtMatrixLayout_t new_layout = nullptr;
  TERN_RETURN_IF_ERROR(
      CheckBlas(TheCublasLt().MatrixLayoutCreate(&new_layout, DataTypeOf(shape_.type), dims[0],
                                                 dims[1], static_cast<int64_t>(dims[0])),
                "cublasLtMatrixLayoutCreate"));
  layout->reset(new_layout);
  return Ok();
}

Status DensePlan::FindAlgorithm() {
  cublasLtMatmulPreference_t new_preference = nullptr;
  TERN_RETURN_IF_ERROR(CheckBlas(TheCublasLt().MatmulPreferenceCreate(&new_preference),
                                 "cublasLtMatmulPreferenceCreate"));
  const Preference preference(new_preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return CheckBlas(TheCublasLt().MatmulPreferenceSetAttribute(preference.get(), attribute, &value,
                                                                sizeof value),
                     "cublasLtMatmulPreferenceSetAttribute");
  };
  TERN_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspaceBytes));
  // An algorithm that computes parts of a sum by themselves may add them in floats alone. In 16
  // bits it would lose digits, and a part that is no fp16 would make an infinity.
  const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  TERN_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes));
  int num_algorithms = 0;
  TERN_RETURN_IF_ERROR(CheckBlas(
      TheCublasLt().MatmulAlgoGetHeuristic(handle_.get(), matmul_.get(), a_.get(), b_.get(),
                                           result_.get(), result_.get(), preference.get(), 1,
                                           &algorithm_, &num_algorithms),
      "cublasLtMatmulAlgoGetHeuristic"));
  if (num_algorithms == 0) return Status(Code::kPeerLost, "cuBLASLt has no algorithm for it");
  return CheckBlas(algorithm_.state, "cublasLtMatmulAlgoGetHeuristic");
}

Status DensePlan::Run(kernels::DeviceStream stream, const ConvData& data) {
  if (AddsBias()) TERN_RETURN_IF_ERROR(SetAttribute(CUBLASLT_MATMUL_DESC_BIAS_POINTER, data.bias));
  const void *a = data.kernel, *b = data.x;
  void* result = data.y;
  if (pass_ == ConvPass::kBackwardData) b = data.y, result = data.x;
  if (pass_ == ConvPass::kBackwardWeights) a = data.x, b = data.y, result = data.kernel;
  const float one = 1, zero = 0;
  return CheckBlas(
      TheCublasLt().Matmul(handle_.get(), matmul_.get(), &one, a, a_.get(), b, b_.get(), &zero,
                           result, result_.get(), result, result_.get(), &algorithm_.algo,
                           data.workspace, algorithm_.workspaceSize, stream),
      "cublasLtMatmul");
}

// Makes plans of dense layers, and leaves what it cannot plan to the library `other_library`.
class Cublas : public ConvLibrary {
 public:
  Cublas(Handle handle, std::unique_ptr<ConvLibrary> other_library)
      : handle_(std::move(handle)), other_library_(std::move(other_library)) {}

  std::unique_ptr<ConvPlan> Plan(const ConvShape& shape, ConvPass pass) override {
    const auto& [in, out, window] = shape.slide;
    const bool is_dense = in.h * in.w == 1 && out.h * out.w == 1 && shape.groups == 1 &&
                          window.rows.kernel == 1 && window.columns.kernel == 1;
    if (!is_dense || HelpsNorm(shape, pass)) return other_library_->Plan(shape, pass);
    auto plan = std::make_unique<DensePlan>(handle_, shape, pass);
    const Status make_status = plan->Make();
    if (make_status.ok()) return plan;
    LOG(WARNING) << "a dense layer of " << in.c << " to " << out.c
                 << " is left to cuDNN, because cuBLASLt cannot run it: " << make_status.message();
    return other_library_->Plan(shape, pass);
  }

 private:
  const Handle handle_;
  const std::unique_ptr<ConvLibrary> other_library_;
};

}  // namespace

Result<std::unique_ptr<ConvLibrary>> MakeCublas(std::unique_ptr<ConvLibrary> other_library) {
  cublasLtHandle_t handle = nullptr;
  TERN_RETURN_IF_ERROR(CheckBlas(TheCublasLt().Create(&handle), "cublasLtCreate"));
  return std::unique_ptr<ConvLibrary>(
      std::make_unique<Cublas>(Handle(handle, TheCublasLt().Destroy), std::move(other_library)));
}

}  // namespace tern::engine::cuda
