#include "worker/tensorboard/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace tern::tensorboard {
namespace {

// Finds the bucket of a magnitude. Bucket k is [limits[k - 1], limits[k]); bucket 0 begins at 0.
// Floats that have the same upper 16 bits form a cell. Cells are so narrow that at most one limit
// lies inside a cell, so a table by cell and one comparison find the bucket.
struct Buckets {
  static constexpr int kCellShift = 16;  // A float's bits, shifted right by this, number its cell.

  Buckets() {
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) limits.push_back(limit);
    limits.push_back(std::numeric_limits<double>::max());
    for (uint32_t cell = 0; cell < first_bucket_by_cell.size(); ++cell) {
      const double cell_begin = std::bit_cast<float>(cell << kCellShift);
      const auto next_limit = std::upper_bound(limits.begin(), limits.end() - 1, cell_begin);
      first_bucket_by_cell[cell] = static_cast<uint16_t>(next_limit - limits.begin());
    }
  }
  size_t BucketOf(float magnitude) const {
    const size_t bucket = first_bucket_by_cell[std::bit_cast<uint32_t>(magnitude) >> kCellShift];
    return std::min(bucket + (magnitude >= limits[bucket] ? 1 : 0), limits.size() - 1);
  }

  std::vector<double> limits;
  // first_bucket_by_cell[cell] is the bucket of the smallest float of the cell.
  std::vector<uint16_t> first_bucket_by_cell = std::vector<uint16_t>(1 << 15);
};

class BucketList {
 public:
  explicit BucketList(pb::HistogramProto* out) : histogram_(*out) {}

  // Appends a bucket that ends at `limit`; limits ascend from call to call. An empty bucket
  // replaces an empty bucket before it, so that neighbouring empty buckets become one.
  void Add(double limit, uint64_t count) {
    const int last_bucket = histogram_.bucket_size() - 1;
    if (count == 0 && last_bucket >= 0 && histogram_.bucket(last_bucket) == 0) {
      histogram_.set_bucket_limit(last_bucket, limit);
    } else {
      histogram_.add_bucket_limit(limit);
      histogram_.add_bucket(static_cast<double>(count));
    }
  }
  void RemoveLastIfEmpty() {
    const int last_bucket = histogram_.bucket_size() - 1;
    if (last_bucket < 0 || histogram_.bucket(last_bucket) != 0) return;
    histogram_.mutable_bucket()->RemoveLast();
    histogram_.mutable_bucket_limit()->RemoveLast();
  }

 private:
  pb::HistogramProto& histogram_;
};

}  // namespace

pb::HistogramProto HistogramOf(std::span<const float> values) {
  static const Buckets buckets;
  pb::HistogramProto histogram;
  if (values.empty()) return histogram;
  const size_t num_limits = buckets.limits.size();
  std::vector<uint64_t> negative_counts(num_limits), positive_counts(num_limits);
  double sum = 0, sum_squares = 0;
  for (const float v : values) {
    ++(v < 0 ? negative_counts : positive_counts)[buckets.BucketOf(std::abs(v))];
    sum += v;
    sum_squares += static_cast<double>(v) * v;
  }
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  histogram.set_min(*min);
  histogram.set_max(*max);
  histogram.set_num(static_cast<double>(values.size()));
  histogram.set_sum(sum);
  histogram.set_sum_squares(sum_squares);
  BucketList bucket_list(&histogram);
  for (size_t k = num_limits; k-- > 0;)
    bucket_list.Add(k == 0 ? 0. : -buckets.limits[k - 1], negative_counts[k]);
  for (size_t k = 0; k < num_limits; ++k) bucket_list.Add(buckets.limits[k], positive_counts[k]);
  bucket_list.RemoveLastIfEmpty();
  return histogram;
}

}  // namespace tern::tensorboard
