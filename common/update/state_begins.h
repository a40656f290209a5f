// When the state of an optimizer was last set to zero, by range of the model. adam's bias
// corrections count updates from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "common/base/floats.h"

namespace tern::update {

class StateBegins {
 public:
  // `range_ends`: where ranges end that are set to zero one by one, in ascending order; the last is
  // the number of elements of the model. At first the state of all ranges begins before update 1.
  explicit StateBegins(std::vector<size_t> range_ends);

  // The state of all elements, or of the range from element `first` on, is zero now: it begins with
  // the next update. REQUIRES that a range begins at `first`.
  void Reset();
  void Reset(size_t first);
  // Cuts elements [first, first + n), which update number `number` changes, where ranges end. Calls
  // `visit` with each piece and the number of the last update before its state began.
  void Visit(
      size_t first, size_t n, uint64_t number,
      const std::function<void(size_t piece_first, size_t piece_n, uint64_t state_begin)>& visit);
  // The number of the last update before the state of element `first` began. Update number
  // `number` is what changes the element next.
  uint64_t BeginOf(size_t first, uint64_t number);

  // The contents for checkpoints and States: zeros if all ranges began before update 1.
  std::span<float> floats() { return floats_; }

 private:
  size_t RangeOf(size_t element) const;
  uint64_t BeginOfRange(size_t range, uint64_t number);
  void Set(size_t range, uint64_t begin);

  const std::vector<size_t> range_ends_;
  Floats floats_;  // two by range: a number below 2^48, its lower and its upper 24 bits
};

}  // namespace tern::update
