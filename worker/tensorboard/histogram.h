// Histograms for TensorBoard, with TensorBoard's usual buckets: their limits grow by a factor of
// 1.1 from 1e-12 on, on both sides of 0.
#pragma once

#include <span>

#include "proto/event.pb.h"

namespace tern::tensorboard {

// Returns the histogram of the values, which must be finite. Zeros are counted in the bucket of the
// smallest positive numbers. Neighbouring empty buckets are merged into one. The result has no
// buckets if there are no values.
pb::HistogramProto HistogramOf(std::span<const float> values);

}  // namespace tern::tensorboard
