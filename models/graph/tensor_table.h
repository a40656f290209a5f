// The parameters of a model that Tern does not know as a network: the table that a program brings
// along (train.compute: client or module).
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "models/graph/parameters.h"
#include "proto/net.pb.h"

namespace tern::models {

inline constexpr int kMaxTensors = 10'000;
inline constexpr size_t kMaxTensorName = 256;  // bytes
inline constexpr int kMaxTensorDims = 16;

// The table of parameters, in the order of `tensors`. A tensor of one dimension or none counts as a
// bias; fan_in is the product of all dimensions but the first. kBadData if there are no tensors or
// more than kMaxTensors, a name is empty, too long, not printable or twice there, a tensor has no
// element or more than kMaxTensorDims dimensions, or there are more than kMaxElements elements, or
// the statistics are no pairs of a mean and a variance of one size.
Result<ParameterTable> TableOfTensors(const pb::TensorTable& tensors);

// The digest of names and shapes, in their order, and of the table's fixed_digest.
uint64_t TensorTableDigest(const pb::TensorTable& tensors);

}  // namespace tern::models
