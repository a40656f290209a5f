#include "worker/engine/cuda/cudnn/graph.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "kernels/nn/device_images.h"
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
  const bool is_virtual = uid == kBeforeBias || uid == kBeforeRelu || uid == kScaled ||
                          uid == kShifted || uid == kNormalized;
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

// Makes the operations of a pass, in order: the norm of x, if the pass normalizes it, the
// convolution and, in the forward pass, the bias and the ReLU, or the sums of channels. A tensor may
// be destroyed once its operations are made, and an operation once the graph is made, because cuDNN
// copies them.
class Operations {
 public:
  Operations(const ConvShape& shape, ConvPass pass)
      : shape_(shape),
        type_(DataTypeOf(shape.type)),
        has_bias_(shape.has_bias && pass == ConvPass::kForward),
        has_relu_(shape.has_relu && pass == ConvPass::kForward),
        adds_up_(AddsUp(shape, pass)),
        normalizes_(Normalizes(shape, pass)) {}

  Status Make(ConvPass pass) {
    const kernels::DeviceSlide& slide = shape_.slide;
    const std::array<int64_t, 4> kernel_dims = {slide.out.c, slide.in.c / shape_.groups,
                                                slide.window.rows.kernel,
                                                slide.window.columns.kernel};
    auto convolution = MakeConvolution(slide);
    if (!convolution.ok()) return convolution.status();
    auto x = MakeInput();
    auto w = MakeTensor(kKernel, type_, kernel_dims);
    auto y = MakeOutput(has_bias_ ? kBeforeBias : has_relu_ ? kBeforeRelu : kImagesOut);
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
    return adds_up_ ? AddSums(*y) : AddBiasAndRelu(std::move(*y));
  }
  std::vector<cudnnBackendDescriptor_t> raw_operations() const {
    std::vector<cudnnBackendDescriptor_t> raw_descriptors;
    for (const Descriptor& operation : operations_) raw_descriptors.push_back(operation.get());
    return raw_descriptors;
  }

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
  Status AddSums(const Descriptor& y) {
    const std::array<int64_t, 4> dims = {1, shape_.slide.out.c, 1, 1};
    auto sums = MakeTensor(kSums, CUDNN_DATA_FLOAT, dims);
    auto squares = MakeTensor(kSquares, CUDNN_DATA_FLOAT, dims);
    for (const auto* tensor : {&sums, &squares}) TERN_RETURN_IF_ERROR(tensor->status());
    return AddOperation(MakeSums(y, *sums, *squares));
  }
  // Adds the bias and the ReLU to the convolution's output `last_output`, if the pass has them.
  Status AddBiasAndRelu(Descriptor last_output) {
    if (has_bias_) {
      auto bias = MakeTensor(kBias, type_, {1, shape_.slide.out.c, 1, 1});
      auto sum = MakeOutput(has_relu_ ? kBeforeRelu : kImagesOut);
      for (const auto* tensor : {&bias, &sum}) TERN_RETURN_IF_ERROR(tensor->status());
      TERN_RETURN_IF_ERROR(
          AddOperation(MakePointwise(CUDNN_POINTWISE_ADD, last_output, &*bias, *sum)));
      last_output = std::move(*sum);
    }
    if (!has_relu_) return Ok();
    auto final_output = MakeOutput(kImagesOut);
    if (!final_output.ok()) return final_output.status();
    return AddOperation(
        MakePointwise(CUDNN_POINTWISE_RELU_FWD, last_output, nullptr, *final_output));
  }

  const ConvShape shape_;
  const cudnnDataType_t type_;
  const bool has_bias_, has_relu_, adds_up_, normalizes_;
  std::vector<Descriptor> operations_;
};

void SetTarget(const Target& target, DescriptorBuilder* plan) {
  if (target.handle == nullptr) {
    plan->Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target.properties);
  } else {
    plan->Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
  }
}

// Reads the plan's workspace size and JSON text from its descriptor.
Result<Plan> PlanFromDescriptor(Descriptor descriptor) {
  Plan plan{std::move(descriptor), 0, {}};
  int64_t workspace_bytes = 0, count = 0;
  TERN_RETURN_IF_ERROR(
      CheckCudnn(TheCudnn().BackendGetAttribute(plan.descriptor.get(),
                                                CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                CUDNN_TYPE_INT64, 1, &count, &workspace_bytes),
                 "a plan's workspace"));
  plan.workspace_bytes = static_cast<size_t>(workspace_bytes);
  constexpr auto kJson = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
  TERN_RETURN_IF_ERROR(
      CheckCudnn(TheCudnn().BackendGetAttribute(plan.descriptor.get(), kJson, CUDNN_TYPE_CHAR, 0,
                                                &count, nullptr),
                 "a plan's JSON"));
  plan.json.resize(static_cast<size_t>(count));
  TERN_RETURN_IF_ERROR(
      CheckCudnn(TheCudnn().BackendGetAttribute(plan.descriptor.get(), kJson, CUDNN_TYPE_CHAR,
                                                count, &count, plan.json.data()),
                 "a plan's JSON"));
  while (!plan.json.empty() && plan.json.back() == '\0') plan.json.pop_back();
  return plan;
}

}  // namespace

bool HasUnequalPadding(const kernels::DeviceSlide& slide) {
  const auto& [rows, columns] = slide.window;
  return PaddingAfter(rows, slide.in.h, slide.out.h) != rows.pad ||
         PaddingAfter(columns, slide.in.w, slide.out.w) != columns.pad;
}

Result<Target> TargetOf(const std::string& json) {
  auto properties = DescriptorBuilder(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "a device")
                        .Set<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, json)
                        .Finish();
  if (!properties.ok()) return properties.status();
  return Target{nullptr, std::move(*properties)};
}

Result<Descriptor> MakeGraph(const Target& target, const ConvShape& shape, ConvPass pass) {
  Operations operations(shape, pass);
  TERN_RETURN_IF_ERROR(operations.Make(pass));
  const std::vector<cudnnBackendDescriptor_t> raw_operations = operations.raw_operations();
  DescriptorBuilder builder(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a graph");
  builder.Set<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS, raw_operations);
  if (target.handle != nullptr) builder.Set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  return builder.Finish();
}

Result<Plan> MakePlan(const Target& target, const Descriptor& candidate) {
  DescriptorBuilder builder(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan");
  builder.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, candidate);
  SetTarget(target, &builder);
  auto descriptor = builder.Finish();
  if (!descriptor.ok()) return descriptor.status();
  return PlanFromDescriptor(std::move(*descriptor));
}

Result<Plan> PlanFromJson(const Target& target, const std::string& json) {
  DescriptorBuilder builder(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan");
  builder.Set<char>(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, json);
  SetTarget(target, &builder);
  auto descriptor = builder.Finish();
  if (!descriptor.ok()) return descriptor.status();
  return PlanFromDescriptor(std::move(*descriptor));
}

Result<Descriptor> MakeVariantPack(const ConvShape& shape, ConvPass pass, const ConvData& data) {
  std::vector<int64_t> uids = {kImagesIn, kKernel, kImagesOut};
  std::vector<void*> pointers = {data.x, data.kernel, data.y};
  if (shape.has_bias && pass == ConvPass::kForward) {
    uids.push_back(kBias);
    pointers.push_back(data.bias);
  }
  if (AddsUp(shape, pass)) {
    uids.insert(uids.end(), {kSums, kSquares});
    pointers.insert(pointers.end(), {data.sums, data.sums + shape.slide.out.c});
  }
  if (Normalizes(shape, pass)) {
    auto* scale = static_cast<std::byte*>(data.norm);
    uids.insert(uids.end(), {kScale, kShift});
    pointers.insert(pointers.end(),
                    {scale, scale + shape.slide.in.c * kernels::BytesOf(shape.type)});
  }
  return DescriptorBuilder(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "a plan's data")
      .Set<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids)
      .SetPointers(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers)
      .SetPointers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {&data.workspace, 1})
      .Finish();
}

}  // namespace tern::engine::cuda::cudnn
