// Values by size, as TensorBoard shows them: its usual buckets, whose limits grow by a factor
// of 1.1 from 1e-12 on either side of 0. Few values that many elements share, as those of ternary
// codes, stand in a narrow bucket each.
#pragma once

#include <span>

#include "proto/event.pb.h"

namespace tern::tensorboard {

// Of finite values. Zeros are in the bucket of the smallest positive numbers; neighbouring buckets
// without any value are one. Nothing of no values.
pb::HistogramProto HistogramOf(std::span<const float> values);

}  // namespace tern::tensorboard
