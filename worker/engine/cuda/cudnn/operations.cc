#include "worker/engine/cuda/cudnn/operations.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "worker/engine/cuda/cudnn/descriptor_builder.h"

namespace tern::engine::cuda::cudnn {
namespace {

cudnnDataType_t DataTypeOf(kernels::DeviceType type) {
  switch (type) {
    case kernels::DeviceType::kBfloat:
      return CUDNN_DATA_BFLOAT16;
    case kernels::DeviceType::kHalf:
      return CUDNN_DATA_HALF;
    case kernels::DeviceType::kFloat:
      break;
  }
  return CUDNN_DATA_FLOAT;
}

// Makes the descriptor of a [n, c, h, w] tensor that is stored channels last.
Result<Descriptor> MakeTensor(TensorUid uid, cudnnDataType_t type,
                              const std::array<int64_t, 4>& dims) {
  const auto [n, c, h, w] = dims;
  const std::array<int64_t, 4> strides = {h * w * c, 1, w * c, c};
  // A virtual tensor is passed from one operation to the next and never stored in memory.
  const bool is_virtual =
      uid == kBeforeBias || (uid >= kScaled && uid <= kNormalized) || uid >= kImageGradient;
  return DescriptorBuilder(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "a tensor")
      .Set<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid)
      .Set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
      .Set<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, dims)
      .Set<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, strides)
      .Set<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16})
      .Set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)
      .Finish();
}

std::array<int64_t, 4> DimsOf(const kernels::DeviceImages& images) {
  return {images.n, images.c, images.h, images.w};
}

// Returns the padding after the image on one axis with `inputs` inputs and `outputs` outputs. If
// equal padding before and after the image gives `outputs` outputs, returns axis.pad, the padding
// before the image, because cuDNN has more and faster engines for equal padding. Otherwise returns
// as much padding as the last window reads.
int64_t PaddingAfter(const kernels::DeviceAxis& axis, int64_t inputs, int64_t outputs) {
  const int64_t pad = axis.pad, stride = axis.stride;
  const int64_t window_extent = (int64_t{axis.kernel} - 1) * axis.dilation + 1;
  const int64_t last_begin =
      inputs + 2 * pad - window_extent;  // The last place where a window can begin.
  if (last_begin >= 0 && last_begin / stride + 1 == outputs) return pad;
  return std::max<int64_t>(0, (outputs - 1) * stride + window_extent - inputs - pad);
}

Result<Descriptor> MakeConvolution(const kernels::DeviceSlide& slide) {
  const auto& [rows, columns] = slide.window;
  const std::array<int64_t, 2> pad_before = {rows.pad, columns.pad},
                               pad_after = {PaddingAfter(rows, slide.in.h, slide.out.h),
                                            PaddingAfter(columns, slide.in.w, slide.out.w)},
                               strides = {rows.stride, columns.stride},
                               dilations = {rows.dilation, columns.dilation};
  return DescriptorBuilder(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, "a convolution")
      .Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .Set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
      .Set<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, pad_before)
      .Set<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, pad_after)
      .Set<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, strides)
      .Set<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilations)
      .Finish();
}

// cuDNN's constants for the operation of a pass, and for the attributes of that operation.
struct PassAttributes {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, kernel, y, convolution, alpha, beta;
};
PassAttributes AttributesOf(ConvPass pass) {
  switch (pass) {
    case ConvPass::kBackwardData:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvPass::kBackwardWeights:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    case ConvPass::kForward:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
}

// Makes the element-wise operation y = mode(x) or, if `b` is not null, y = mode(x, b).
Result<Descriptor> MakePointwise(cudnnPointwiseMode_t mode, const Descriptor& x,
                                 const Descriptor* b, const Descriptor& y) {
  auto pointwise =
      DescriptorBuilder(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "what happens to each element")
          .Set(CUDNN_ATTR_POINTWISE_MODE, mode)
          .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
          .Finish();
  if (!pointwise.ok()) return pointwise.status();
  DescriptorBuilder builder(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
                            "an operation on each element");
  builder.Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *pointwise)
      .Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .Set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  if (b != nullptr) builder.Set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  return builder.Finish();
}

// Makes the operation that sets `dx` to `dy` where `x` is above 0, and else to 0.
Result<Descriptor> MakeReluBackward(const Descriptor& dy, const Descriptor& x,
                                    const Descriptor& dx) {
  auto pointwise = DescriptorBuilder(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "the way back of a ReLU")
                       .Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_RELU_BWD)
                       .Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
                       .Finish();
  if (!pointwise.ok()) return pointwise.status();
  return DescriptorBuilder(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "a ReLU's gradient")
      .Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, *pointwise)
      .Set(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, dy)
      .Set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .Set(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx)
      .Finish();
}

// Makes the operation that adds up the elements of each channel of `x`, and their squares.
Result<Descriptor> MakeSums(const Descriptor& x, const Descriptor& sums,
                            const Descriptor& squares) {
  return DescriptorBuilder(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR, "the sums of channels")
      .Set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_GENSTATS_SUM_SQSUM)
      .Set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT)
      .Set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, x)
      .Set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, sums)
      .Set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, squares)
      .Finish();
}

// See MakeOperations. A tensor may be destroyed once its operations are made, and an operation once
// the graph is made, because cuDNN copies them.
class Operations {
 public:
  Operations(const ConvShape& shape, ConvPass pass)
      : shape_(shape),
        type_(DataTypeOf(shape.type)),
        has_bias_(shape.has_bias && pass == ConvPass::kForward),
        adds_up_(AddsUp(shape, pass)),
        normalizes_(Normalizes(shape, pass)),
        takes_norm_gradient_(TakesNormGradient(shape, pass)) {}

  Status Make(ConvPass pass) {
    const kernels::DeviceSlide& slide = shape_.slide;
    const std::array<int64_t, 4> kernel_dims = {slide.out.c, slide.in.c / shape_.groups,
                                                slide.window.rows.kernel,
                                                slide.window.columns.kernel};
    auto convolution = MakeConvolution(slide);
    if (!convolution.ok()) return convolution.status();
    auto x = MakeInput();
    auto w = MakeTensor(kKernel, type_, kernel_dims);
    auto y = MakeOutput(has_bias_ ? kBeforeBias : kImagesOut);
    for (const auto* tensor : {&x, &w, &y}) TERN_RETURN_IF_ERROR(tensor->status());
    const PassAttributes attributes = AttributesOf(pass);
    TERN_RETURN_IF_ERROR(
        AddOperation(DescriptorBuilder(attributes.operation, "a pass of a convolution")
                         .Set(attributes.x, *x)
                         .Set(attributes.kernel, *w)
                         .Set(attributes.y, *y)
                         .Set(attributes.convolution, *convolution)
                         .Set(attributes.alpha, 1.0f)
                         .Set(attributes.beta, 0.0f)
                         .Finish()));
    if (takes_norm_gradient_) return AddNormGradient(*x);
    if (has_bias_) return AddBias(*y);
    return adds_up_ ? AddSums(*y) : Ok();
  }
  std::vector<Descriptor> Take() { return std::move(operations_); }

 private:
  Result<Descriptor> MakeOutput(TensorUid uid) const {
    return MakeTensor(uid, uid == kImagesOut ? type_ : CUDNN_DATA_FLOAT, DimsOf(shape_.slide.out));
  }
  Status AddOperation(Result<Descriptor> operation) {
    if (operation.ok()) operations_.push_back(std::move(*operation));
    return operation.status();
  }
  // Returns the tensor that the convolution reads, or whose gradient it computes. cuDNN's engines
  // want what takes the place of x in x's type.
  Result<Descriptor> MakeInput() {
    const kernels::DeviceImages& in = shape_.slide.in;
    if (takes_norm_gradient_) return MakeTensor(kImageGradient, CUDNN_DATA_FLOAT, DimsOf(in));
    auto x = MakeTensor(kImagesIn, type_, DimsOf(in));
    if (!normalizes_ || !x.ok()) return x;
    auto scale = MakeTensor(kScale, type_, {1, in.c, 1, 1});
    auto shift = MakeTensor(kShift, type_, {1, in.c, 1, 1});
    auto scaled = MakeTensor(kScaled, CUDNN_DATA_FLOAT, DimsOf(in));
    auto shifted = MakeTensor(kShifted, CUDNN_DATA_FLOAT, DimsOf(in));
    auto normalized = MakeTensor(kNormalized, type_, DimsOf(in));
    for (const auto* tensor : {&scale, &shift, &scaled, &shifted, &normalized})
      TERN_RETURN_IF_ERROR(tensor->status());
    TERN_RETURN_IF_ERROR(AddOperation(MakePointwise(CUDNN_POINTWISE_MUL, *x, &*scale, *scaled)));
    TERN_RETURN_IF_ERROR(
        AddOperation(MakePointwise(CUDNN_POINTWISE_ADD, *scaled, &*shift, *shifted)));
    TERN_RETURN_IF_ERROR(
        AddOperation(MakePointwise(CUDNN_POINTWISE_RELU_FWD, *shifted, nullptr, *normalized)));
    return normalized;
  }
  // Computes the norm's output before the ReLU from the norm's input, as gain x^ + bias, sets
  // `gradient` to 0 where it is not above 0, and takes the sums for the norm's gradients.
  Status AddNormGradient(const Descriptor& gradient) {
    const std::array<int64_t, 4> dims = DimsOf(shape_.slide.in), channels = {1, dims[1], 1, 1};
    std::map<TensorUid, Descriptor> tensors;
    for (const TensorUid uid :
         {kNormInput, kImagesIn, kMean, kInverse, kGain, kNormBias, kProducts, kGradientSums,
          kUnused, kUnused2, kUnused3, kCentered, kDivided, kGained, kBiased}) {
      const bool is_stored_image = uid == kNormInput || uid == kImagesIn;
      auto tensor = MakeTensor(uid, is_stored_image ? type_ : CUDNN_DATA_FLOAT,
                               is_stored_image || uid >= kCentered ? dims : channels);
      if (!tensor.ok()) return tensor.status();
      tensors[uid] = std::move(*tensor);
    }
    struct Step {
      cudnnPointwiseMode_t mode;
      TensorUid from, operand, to;
    };
    for (const auto& [mode, from, operand, to] :
         {Step{CUDNN_POINTWISE_SUB, kNormInput, kMean, kCentered},
          Step{CUDNN_POINTWISE_MUL, kCentered, kInverse, kDivided},
          Step{CUDNN_POINTWISE_MUL, kDivided, kGain, kGained},
          Step{CUDNN_POINTWISE_ADD, kGained, kNormBias, kBiased}}) {
      TERN_RETURN_IF_ERROR(
          AddOperation(MakePointwise(mode, tensors[from], &tensors[operand], tensors[to])));
    }
    TERN_RETURN_IF_ERROR(
        AddOperation(MakeReluBackward(gradient, tensors[kBiased], tensors[kImagesIn])));
    return AddOperation(
        DescriptorBuilder(CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR, "a norm's gradients")
            .Set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, CUDNN_DATA_FLOAT)
            .Set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, tensors[kNormInput])
            .Set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, tensors[kImagesIn])
            .Set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, tensors[kMean])
            .Set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, tensors[kInverse])
            .Set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, tensors[kGain])
            .Set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, tensors[kProducts])
            .Set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, tensors[kGradientSums])
            .Set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, tensors[kUnused])
            .Set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, tensors[kUnused2])
            .Set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, tensors[kUnused3])
            .Finish());
  }
  Status AddSums(const Descriptor& y) {
    const std::array<int64_t, 4> dims = {1, shape_.slide.out.c, 1, 1};
    auto sums = MakeTensor(kSums, CUDNN_DATA_FLOAT, dims);
    auto squares = MakeTensor(kSquares, CUDNN_DATA_FLOAT, dims);
    for (const auto* tensor : {&sums, &squares}) TERN_RETURN_IF_ERROR(tensor->status());
    return AddOperation(MakeSums(y, *sums, *squares));
  }
  // Adds the bias to the convolution's output `before_bias`.
  Status AddBias(const Descriptor& before_bias) {
    auto bias = MakeTensor(kBias, type_, {1, shape_.slide.out.c, 1, 1});
    auto sum = MakeOutput(kImagesOut);
    for (const auto* tensor : {&bias, &sum}) TERN_RETURN_IF_ERROR(tensor->status());
    return AddOperation(MakePointwise(CUDNN_POINTWISE_ADD, before_bias, &*bias, *sum));
  }

  const ConvShape shape_;
  const cudnnDataType_t type_;
  const bool has_bias_, adds_up_, normalizes_, takes_norm_gradient_;
  std::vector<Descriptor> operations_;
};

}  // namespace

bool HasUnequalPadding(const kernels::DeviceSlide& slide) {
  const auto& [rows, columns] = slide.window;
  return PaddingAfter(rows, slide.in.h, slide.out.h) != rows.pad ||
         PaddingAfter(columns, slide.in.w, slide.out.w) != columns.pad;
}

Result<std::vector<Descriptor>> MakeOperations(const ConvShape& shape, ConvPass pass) {
  Operations operations(shape, pass);
  TERN_RETURN_IF_ERROR(operations.Make(pass));
  return operations.Take();
}

}  // namespace tern::engine::cuda::cudnn
