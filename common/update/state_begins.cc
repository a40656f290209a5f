#include "common/update/state_begins.h"

#include <algorithm>
#include <utility>

namespace tern::update {
namespace {

constexpr uint64_t kFloatBits = 24, kFloatMask = (uint64_t{1} << kFloatBits) - 1;
// Instead of a number: the state begins with the next update.
constexpr uint64_t kNext = (uint64_t{1} << (2 * kFloatBits)) - 1;

// The number in a float, which may come from another machine.
uint64_t BitsOf(float number) {
  return number >= 0 && number <= static_cast<float>(kFloatMask) ? static_cast<uint64_t>(number)
                                                                 : kFloatMask;
}

}  // namespace

StateBegins::StateBegins(std::vector<size_t> range_ends)
    : range_ends_(std::move(range_ends)), floats_(2 * range_ends_.size()) {}

void StateBegins::Reset() {
  for (size_t range = 0; range < range_ends_.size(); ++range) Set(range, kNext);
}

void StateBegins::Reset(size_t first) { Set(RangeOf(first), kNext); }

size_t StateBegins::RangeOf(size_t element) const {
  const auto end = std::upper_bound(range_ends_.begin(), range_ends_.end(), element);
  return static_cast<size_t>(end - range_ends_.begin());
}

void StateBegins::Visit(size_t first, size_t n, uint64_t number,
                        const std::function<void(size_t, size_t, uint64_t)>& visit) {
  const size_t end = first + n;
  for (size_t range = RangeOf(first); first < end; ++range) {
    const size_t piece_end = std::min(end, range_ends_[range]);
    visit(first, piece_end - first, BeginOfRange(range, number));
    first = piece_end;
  }
}

uint64_t StateBegins::BeginOf(size_t first, uint64_t number) {
  return BeginOfRange(RangeOf(first), number);
}

uint64_t StateBegins::BeginOfRange(size_t range, uint64_t number) {
  const uint64_t begin = BitsOf(floats_[2 * range]) | BitsOf(floats_[2 * range + 1]) << kFloatBits;
  if (begin < number) return begin;
  Set(range, number - 1);
  return number - 1;
}

void StateBegins::Set(size_t range, uint64_t begin) {
  floats_[2 * range] = static_cast<float>(begin & kFloatMask);
  floats_[2 * range + 1] = static_cast<float>(begin >> kFloatBits);
}

}  // namespace tern::update
