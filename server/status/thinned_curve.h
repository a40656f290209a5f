// A curve over the steps of a job, with a bounded number of points.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern::server {

// `Point` has a member `uint64_t step`. As the curve grows beyond kMaxPoints, every second point is
// dropped and later ones are kept at twice the distance. The newest point is always there.
template <typename Point>
class ThinnedCurve {
 public:
  static constexpr size_t kMaxPoints = 512;

  // If the job has gone back to an earlier step, what came after it is dropped.
  void Add(const Point& point) {
    while (!points_.empty() && points_.back().step >= point.step) points_.pop_back();
    if (points_.size() >= 2 && point.step - points_[points_.size() - 2].step < distance_)
      points_.pop_back();
    points_.push_back(point);
    if (points_.size() > kMaxPoints) Thin();
  }

  const std::vector<Point>& points() const { return points_; }

 private:
  void Thin() {
    const Point newest = points_.back();
    size_t num_kept = 0;
    for (size_t i = 0; i < points_.size(); i += 2) points_[num_kept++] = points_[i];
    points_.resize(num_kept);
    if (points_.back().step != newest.step) points_.push_back(newest);
    distance_ = (newest.step - points_.front().step) / (kMaxPoints / 2);
  }

  std::vector<Point> points_;
  uint64_t distance_ = 0;  // in steps, between each point and the second next
};

}  // namespace tern::server
