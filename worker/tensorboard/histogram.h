// Histograms for TensorBoard, with its usual buckets, whose limits grow by a factor of 1.1 from
// 1e-12 on either side of 0. Each of the few distinct values of ternary codes falls into a narrow
// bucket.
#pragma once

#include <span>

#include "proto/event.pb.h"

namespace tern::tensorboard {

// REQUIRES finite values. Zeros go into the bucket of the smallest positive numbers; neighbouring
// empty buckets are merged. Empty if there are no values.
pb::HistogramProto HistogramOf(std::span<const float> values);

}  // namespace tern::tensorboard
