// Builds a descriptor of cuDNN's backend API: sets its attributes, and then finalizes it. Included
// only by graph.cc and candidates.cc.
#pragma once

#include <span>
#include <string>
#include <utility>

#include "common/base/text.h"
#include "worker/engine/cuda/cudnn/descriptor.h"
#include "worker/engine/cuda/cudnn/vendor.h"

namespace tern::engine::cuda::cudnn {

// Each overload returns cuDNN's constant for the type of its argument.
constexpr auto TypeOf(int64_t) { return CUDNN_TYPE_INT64; }
constexpr auto TypeOf(float) { return CUDNN_TYPE_FLOAT; }
constexpr auto TypeOf(bool) { return CUDNN_TYPE_BOOLEAN; }
constexpr auto TypeOf(char) { return CUDNN_TYPE_CHAR; }
constexpr auto TypeOf(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
constexpr auto TypeOf(cudnnConvolutionMode_t) { return CUDNN_TYPE_CONVOLUTION_MODE; }
constexpr auto TypeOf(cudnnPointwiseMode_t) { return CUDNN_TYPE_POINTWISE_MODE; }
constexpr auto TypeOf(cudnnGenStatsMode_t) { return CUDNN_TYPE_GENSTATS_MODE; }
constexpr auto TypeOf(cudnnBackendHeurMode_t) { return CUDNN_TYPE_HEUR_MODE; }
constexpr auto TypeOf(cudnnBackendDescriptor_t) { return CUDNN_TYPE_BACKEND_DESCRIPTOR; }
constexpr auto TypeOf(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }

// A descriptor under construction. After an error, the functions do nothing, and Finish returns the
// error.
class DescriptorBuilder {
 public:
  // `what` names the descriptor in error messages.
  DescriptorBuilder(cudnnBackendDescriptorType_t type, const char* what) : name_(what) {
    cudnnBackendDescriptor_t raw_descriptor = nullptr;
    status_ = CheckCudnn(TheCudnn().BackendCreateDescriptor(type, &raw_descriptor),
                         "cudnnBackendCreateDescriptor");
    descriptor_.reset(raw_descriptor);
  }
  template <typename T>
  DescriptorBuilder& Set(cudnnBackendAttributeName_t name, std::span<const T> values) {
    return SetRaw(name, TypeOf(T()), values.size(), values.data());
  }
  template <typename T>
  DescriptorBuilder& Set(cudnnBackendAttributeName_t name, const T& value) {
    return Set(name, std::span<const T>(&value, 1));
  }
  DescriptorBuilder& Set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    const cudnnBackendDescriptor_t raw_value = value.get();
    return Set<cudnnBackendDescriptor_t>(name, raw_value);
  }
  DescriptorBuilder& SetPointers(cudnnBackendAttributeName_t name,
                                 std::span<void* const> pointers) {
    return SetRaw(name, CUDNN_TYPE_VOID_PTR, pointers.size(), pointers.data());
  }
  Result<Descriptor> Finish() {
    if (status_.ok())
      status_ = CheckCudnn(TheCudnn().BackendFinalize(descriptor_.get()),
                           Cat("cudnnBackendFinalize of ", name_));
    if (!status_.ok()) return status_;
    return std::move(descriptor_);
  }

 private:
  DescriptorBuilder& SetRaw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            size_t count, const void* values) {
    if (!status_.ok()) return *this;
    status_ = CheckCudnn(TheCudnn().BackendSetAttribute(descriptor_.get(), name, type,
                                                        static_cast<int64_t>(count), values),
                         Cat("cudnnBackendSetAttribute of ", name_));
    return *this;
  }

  const char* name_;
  Descriptor descriptor_;
  Status status_ = Ok();
};

}  // namespace tern::engine::cuda::cudnn
