#include "client/exchange/exchange_counters.h"

#include <vector>

#include "common/protocol/rounds/forms.h"

namespace tern::client {

namespace {

// Returns 0, 1, ..., n - 1.
std::vector<double> WholeNumbers(size_t n) {
  std::vector<double> bounds;
  for (size_t i = 0; i < n; ++i) bounds.push_back(static_cast<double>(i));
  return bounds;
}

}  // namespace

ExchangeCounters::ExchangeCounters(const protocol::ExchangePlan& plan, Registry& registry)
    : exchange_(registry.GetTimeCounter("tern_worker_exchange_seconds_total",
                                        "From the first push to the last answer of a round")),
      busy_(registry.GetTimeCounter("tern_worker_exchange_busy_seconds_total",
                                    "Time with pushes that had no answer yet")),
      answers_(registry.GetCounter("tern_worker_answers_total", "Answers to pushes of a chunk")),
      dropped_(registry.GetCounter("tern_worker_dropped_total",
                                   "Pushes that servers dropped for their staleness")),
      staleness_(registry.GetHistogram("tern_worker_staleness",
                                       "Changes of the weights between a gradient's and its push",
                                       WholeNumbers(kBins - 1))),
      control_(registry.GetHistogram("tern_worker_control_round_trip_seconds",
                                     "From a heartbeat to its echo",
                                     Histogram::Exponential(1e-4, 2, 16))) {
  for (const protocol::Bucket& bucket : plan.buckets) chunks_ += bucket.chunks.size();
}

void ExchangeCounters::OnPush(const protocol::Cell& cell, uint64_t exchange, Time now) {
  if (open_.empty()) busy_since_ = now;
  Open& open = open_[exchange];
  if (open.pushes.empty()) open.begin = now;
  open.pushes.insert(cell);
}

void ExchangeCounters::OnAnswer(const protocol::Exchange::Delivery& answer, Time now) {
  if (answer.cell.kind != protocol::Kind::kPush) return;
  const auto found = open_.find(protocol::ExchangeOf(answer.outcome));
  if (found == open_.end() || found->second.pushes.erase(answer.cell) == 0) return;
  answers_.Add();
  if (found->second.pushes.empty()) {
    exchange_.Add(now - found->second.begin);
    open_.erase(found);
    if (open_.empty()) busy_.Add(now - busy_since_);
  }
  // One chunk's staleness stands for that of all chunks.
  if (answer.cell.bucket != 0 || answer.cell.chunk != 0) return;
  if (!answer.outcome.has_at_clock()) return;
  staleness_.Observe(static_cast<double>(answer.outcome.at_clock().staleness()));
  if (answer.outcome.at_clock().dropped()) dropped_.Add();
}

void ExchangeCounters::OnRoundTrips(const protocol::Session::RoundTrips& trips) {
  const uint64_t num_new = trips.count - trips_.count;
  const double mean = Seconds(trips.total - trips_.total) / static_cast<double>(num_new);
  for (uint64_t i = 0; i < num_new; ++i) control_.Observe(mean);
  trips_ = trips;
}

uint64_t ExchangeCounters::exchanges() const { return answers_.value() / chunks_; }

void ExchangeCounters::AddTo(pb::Counters* counters) const {
  counters->set_exchange_s(Seconds(exchange_.value()));
  counters->set_exchange_busy_s(Seconds(busy_.value()));
  counters->set_exchanges(exchanges());
  counters->set_control_round_trips(trips_.count);
  counters->set_control_round_trip_s(Seconds(trips_.total));
  counters->set_control_round_trip_max_s(Seconds(trips_.longest));
  if (staleness_.count() == 0) return;
  for (size_t i = 0; i < kBins; ++i) counters->add_staleness(staleness_.bucket(i));
  counters->set_dropped(dropped_.value());
}

}  // namespace tern::client
