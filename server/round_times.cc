#include "server/round_times.h"

#include <utility>

#include "common/protocol/rounds/lane.h"

namespace tern::server {

void RoundTimes::Update(uint64_t floor, Time now) {
  if (floor == floor_) return;
  const uint64_t previous_floor = std::exchange(floor_, floor);
  const Time since = now - std::exchange(at_, now);
  const bool goes_on = previous_floor != 0 && floor > previous_floor &&
                       floor - previous_floor <= protocol::kMaxRoundsAhead;
  if (!goes_on) return;
  if (histogram_ == nullptr) {
    histogram_ = &registry_.GetHistogram("tern_server_round_seconds",
                                         "From the end of a round to the end of the next",
                                         Histogram::ExponentialBounds(1e-3, 2, 17));
  }
  const uint64_t num_rounds = floor - previous_floor;
  for (uint64_t i = 0; i < num_rounds; ++i)
    histogram_->Observe(Seconds(since) / static_cast<double>(num_rounds));
}

}  // namespace tern::server
