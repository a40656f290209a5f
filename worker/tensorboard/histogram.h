// Histograms as TensorBoard shows them, with its usual buckets, whose limits grow by a factor of
// 1.1 from 1e-12 on either side of 0. The few distinct values of ternary codes fall into a narrow
// bucket each.
#pragma once

#include <span>

#include "proto/event.pb.h"

namespace tern::tensorboard {

// REQUIRES finite values. Zeros go into the bucket of the smallest positive numbers; neighbouring
// empty buckets are merged. Empty for no values.
pb::HistogramProto HistogramOf(std::span<const float> values);

}  // namespace tern::tensorboard
