#include "server/lane_counters.h"

#include <string>

namespace tern::server {

namespace {

Counter& GetLaneCounter(Registry& registry, const std::string& name, const std::string& help,
                        uint32_t lane) {
  return registry.GetCounter(name, help, {{"lane", std::to_string(lane)}});
}

Counter& GetRefusedCounter(Registry& registry, const std::string& reason, uint32_t lane) {
  return registry.GetCounter("tern_server_refused_total",
                             "Contributions and other messages of a round refused, by reason",
                             {{"lane", std::to_string(lane)}, {"reason", reason}});
}

// Increases the counter to `target`. REQUIRES that `target` is not below the counter's value.
void RaiseTo(Counter& counter, uint64_t target) { counter.Add(target - counter.value()); }

}  // namespace

LaneCounters::LaneCounters(Registry& registry, uint32_t lane)
    : registry_(registry),
      lane_(lane),
      counted_contributions_(GetLaneCounter(registry, "tern_server_contributions_total",
                                            "Contributions counted", lane)),
      closed_cells_(GetLaneCounter(registry, "tern_server_outcomes_total",
                                   "Cells of rounds that were closed", lane)),
      repeated_contributions_(GetLaneCounter(registry, "tern_server_repeated_total",
                                             "Contributions that were received again", lane)),
      refused_stale_(GetRefusedCounter(registry, "stale", lane)),
      refused_early_(GetRefusedCounter(registry, "early", lane)),
      refused_not_member_(GetRefusedCounter(registry, "not_a_member", lane)),
      refused_bad_(GetRefusedCounter(registry, "bad", lane)),
      restored_outcomes_(
          GetLaneCounter(registry, "tern_server_restored_total",
                         "Outcomes that workers returned to this server after its restart", lane)),
      late_contributions_(GetLaneCounter(registry, "tern_server_late_total",
                                         "Contributions to a round that had closed without them",
                                         lane)),
      skipped_contributions_(
          GetLaneCounter(registry, "tern_server_skipped_total",
                         "Contributions of workers that take no part in the round", lane)),
      host_sums_(GetLaneCounter(registry, "tern_server_host_sums_total",
                                "Sums of several workers of one host that were added", lane)),
      split_host_sums_(GetLaneCounter(
          registry, "tern_server_split_host_sums_total",
          "Sums of a host that were not added, because some of its workers had counted, or were "
          "members no more",
          lane)),
      floor_round_(registry.GetGauge("tern_server_floor_round",
                                     "Newest round that every worker has applied",
                                     {{"lane", std::to_string(lane)}})) {}

void LaneCounters::Export(const protocol::Lane& lane) {
  const protocol::Lane::Counters& counts = lane.counters();
  RaiseTo(counted_contributions_, counts.counted);
  RaiseTo(closed_cells_, counts.closed);
  RaiseTo(repeated_contributions_, counts.repeated);
  RaiseTo(refused_stale_, counts.stale);
  RaiseTo(refused_early_, counts.early);
  RaiseTo(refused_not_member_, counts.fenced);
  RaiseTo(refused_bad_, counts.bad);
  RaiseTo(restored_outcomes_, counts.restored);
  RaiseTo(late_contributions_, counts.late);
  RaiseTo(skipped_contributions_, counts.skipped);
  RaiseTo(host_sums_, counts.host_sums);
  RaiseTo(split_host_sums_, counts.split);
  floor_round_.Set(static_cast<double>(lane.floor()));
  if (counts.staleness.empty()) return;
  if (staleness_ == nullptr) {
    std::vector<double> bounds;
    for (size_t i = 0; i + 1 < counts.staleness.size(); ++i)
      bounds.push_back(static_cast<double>(i));
    staleness_ = &registry_.GetHistogram(
        "tern_server_staleness", "Updates of the weights between computing a gradient and its push",
        bounds, {{"lane", std::to_string(lane_)}});
    exported_staleness_.resize(counts.staleness.size());
  }
  for (size_t i = 0; i < exported_staleness_.size(); ++i) {
    for (; exported_staleness_[i] < counts.staleness[i]; ++exported_staleness_[i])
      staleness_->Observe(static_cast<double>(i));
  }
}

void LaneCounters::ExportDropped(const std::vector<uint64_t>& by_rank) {
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (rank == dropped_pushes_.size()) {
      dropped_pushes_.push_back(&registry_.GetCounter(
          "tern_server_dropped_total", "Pushes dropped because they were too stale",
          {{"lane", std::to_string(lane_)}, {"rank", std::to_string(rank)}}));
    }
    RaiseTo(*dropped_pushes_[rank], by_rank[rank]);
  }
}

}  // namespace tern::server
