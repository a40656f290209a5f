#include "client/exchange/exchange_counters.h"

#include <algorithm>
#include <vector>

#include "common/protocol/rounds/forms.h"

namespace tern::client {

namespace {

// Returns 0, 1, ..., n - 1.
std::vector<double> WholeNumbers(size_t n) {
  std::vector<double> numbers;
  for (size_t i = 0; i < n; ++i) numbers.push_back(static_cast<double>(i));
  return numbers;
}

}  // namespace

ExchangeCounters::ExchangeCounters(const protocol::ExchangePlan& plan, Registry& registry)
    : exchange_time_(registry.GetTimeCounter("tern_worker_exchange_seconds_total",
                                             "From the first push to the last answer of a round")),
      busy_time_(registry.GetTimeCounter("tern_worker_exchange_busy_seconds_total",
                                         "Time with pushes that had no answer yet")),
      num_answers_(
          registry.GetCounter("tern_worker_answers_total", "Answers to pushes of a chunk")),
      num_dropped_(registry.GetCounter("tern_worker_dropped_total",
                                       "Pushes that servers dropped for their staleness")),
      control_trip_times_(registry.GetHistogram("tern_worker_control_round_trip_seconds",
                                                "From a heartbeat to its echo",
                                                Histogram::ExponentialBounds(1e-4, 2, 16))) {
  for (const protocol::Bucket& bucket : plan.buckets) num_chunks_ += bucket.chunks.size();
  if (plan.has_rounds) return;
  staleness_ = &registry.GetHistogram("tern_worker_staleness",
                                      "Changes of the weights between a gradient's and its push",
                                      WholeNumbers(kStalenessBins - 1));
}

void ExchangeCounters::OnPush(const protocol::Cell& cell, uint64_t exchange, Time now) {
  const auto answered = newest_answers_.find(cell);
  if (answered != newest_answers_.end() && exchange <= answered->second) return;
  if (open_exchanges_.empty()) busy_since_ = now;
  OpenExchange& open_exchange = open_exchanges_[exchange];
  if (open_exchange.unanswered_cells.empty()) open_exchange.first_push_at = now;
  open_exchange.unanswered_cells.insert(cell);
}

void ExchangeCounters::OnAnswer(const protocol::Exchange::Delivery& answer, Time now) {
  if (answer.cell.kind != protocol::Kind::kPush) return;
  const uint64_t exchange = protocol::ExchangeOf(answer.outcome);
  uint64_t& newest_answer = newest_answers_[answer.cell];
  newest_answer = std::max(newest_answer, exchange);
  const auto found = open_exchanges_.find(exchange);
  if (found == open_exchanges_.end() || !found->second.unanswered_cells.contains(answer.cell))
    return;
  num_answers_.Add();
  if (found->second.unanswered_cells.size() == 1)
    exchange_time_.Add(now - found->second.first_push_at);
  StopWaiting(answer.cell, exchange, now);
  // The staleness of one chunk of the model is counted for the whole push.
  if (answer.cell.bucket != 0 || answer.cell.chunk != 0) return;
  if (staleness_ == nullptr || !answer.outcome.has_at_clock()) return;
  staleness_->Observe(static_cast<double>(answer.outcome.at_clock().staleness()));
  if (answer.outcome.at_clock().dropped()) num_dropped_.Add();
}

void ExchangeCounters::StopWaiting(const protocol::Cell& cell, uint64_t exchange, Time now) {
  for (auto open = open_exchanges_.begin();
       open != open_exchanges_.end() && open->first <= exchange;) {
    open->second.unanswered_cells.erase(cell);
    open = open->second.unanswered_cells.empty() ? open_exchanges_.erase(open) : std::next(open);
  }
  if (open_exchanges_.empty()) busy_time_.Add(now - busy_since_);
}

void ExchangeCounters::OnRoundTrips(const protocol::Session::RoundTrips& trips) {
  const uint64_t num_new_trips = trips.count - round_trips_.count;
  const double mean_s =
      Seconds(trips.total - round_trips_.total) / static_cast<double>(num_new_trips);
  for (uint64_t i = 0; i < num_new_trips; ++i) control_trip_times_.Observe(mean_s);
  round_trips_ = trips;
}

uint64_t ExchangeCounters::num_exchanges() const { return num_answers_.value() / num_chunks_; }

void ExchangeCounters::AddTo(pb::Counters* counters) const {
  counters->set_exchange_s(Seconds(exchange_time_.value()));
  counters->set_exchange_busy_s(Seconds(busy_time_.value()));
  counters->set_exchanges(num_exchanges());
  counters->set_control_round_trips(round_trips_.count);
  counters->set_control_round_trip_s(Seconds(round_trips_.total));
  counters->set_control_round_trip_max_s(Seconds(round_trips_.longest));
  if (staleness_ == nullptr || staleness_->count() == 0) return;
  for (size_t i = 0; i < kStalenessBins; ++i) counters->add_staleness(staleness_->bucket(i));
  counters->set_dropped(num_dropped_.value());
}

}  // namespace tern::client
