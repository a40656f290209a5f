#include "server/lane_counters.h"

#include <string>

namespace tern::server {

namespace {

Counter& Plain(Registry& registry, const std::string& name, const std::string& help,
               uint32_t lane) {
  return registry.GetCounter(name, help, {{"lane", std::to_string(lane)}});
}

Counter& Refused(Registry& registry, const std::string& why, uint32_t lane) {
  return registry.GetCounter("tern_server_refused_total",
                             "Contributions and other messages of a round refused, by reason",
                             {{"lane", std::to_string(lane)}, {"reason", why}});
}

// Raises the counter to `to`, a count of the lane; such counts never decrease.
void Raise(Counter& counter, uint64_t to) { counter.Add(to - counter.value()); }

}  // namespace

LaneCounters::LaneCounters(Registry& registry, uint32_t lane)
    : registry_(registry),
      lane_(lane),
      counted_(Plain(registry, "tern_server_contributions_total", "Contributions counted", lane)),
      closed_(
          Plain(registry, "tern_server_outcomes_total", "Cells of rounds that were closed", lane)),
      repeated_(Plain(registry, "tern_server_repeated_total",
                      "Contributions that were received again", lane)),
      stale_(Refused(registry, "stale", lane)),
      early_(Refused(registry, "early", lane)),
      fenced_(Refused(registry, "not_a_member", lane)),
      bad_(Refused(registry, "bad", lane)),
      restored_(Plain(registry, "tern_server_restored_total",
                      "Outcomes that workers returned to this server after its restart", lane)),
      late_(Plain(registry, "tern_server_late_total",
                  "Contributions to a round that had closed without them", lane)),
      skipped_(Plain(registry, "tern_server_skipped_total",
                     "Contributions of workers that take no part in the round", lane)),
      floor_(registry.GetGauge("tern_server_floor_round",
                               "Newest round that every worker has applied",
                               {{"lane", std::to_string(lane)}})) {}

void LaneCounters::Export(const protocol::Lane& lane) {
  const protocol::Lane::Counters& c = lane.counters();
  Raise(counted_, c.counted);
  Raise(closed_, c.closed);
  Raise(repeated_, c.repeated);
  Raise(stale_, c.stale);
  Raise(early_, c.early);
  Raise(fenced_, c.fenced);
  Raise(bad_, c.bad);
  Raise(restored_, c.restored);
  Raise(late_, c.late);
  Raise(skipped_, c.skipped);
  floor_.Set(static_cast<double>(lane.floor()));
  if (c.staleness.empty()) return;
  if (staleness_ == nullptr) {
    std::vector<double> bounds;
    for (size_t i = 0; i + 1 < c.staleness.size(); ++i) bounds.push_back(static_cast<double>(i));
    staleness_ = &registry_.GetHistogram(
        "tern_server_staleness", "Updates of the weights between computing a gradient and its push",
        bounds, {{"lane", std::to_string(lane_)}});
    observed_.resize(c.staleness.size());
  }
  for (size_t i = 0; i < observed_.size(); ++i) {
    for (; observed_[i] < c.staleness[i]; ++observed_[i])
      staleness_->Observe(static_cast<double>(i));
  }
}

void LaneCounters::ExportDropped(const std::vector<uint64_t>& by_rank) {
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (rank == dropped_.size()) {
      dropped_.push_back(&registry_.GetCounter(
          "tern_server_dropped_total", "Pushes dropped because they were too stale",
          {{"lane", std::to_string(lane_)}, {"rank", std::to_string(rank)}}));
    }
    Raise(*dropped_[rank], by_rank[rank]);
  }
}

}  // namespace tern::server
