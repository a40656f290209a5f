#include "server/status/work_window.h"

#include "setup/totals.h"

namespace tern::server {

namespace {

// Half of what the caller updates per second would do; this bounds memory if it updates more often.
constexpr size_t kMaxTotals = 64;

std::optional<double> Ratio(double part, double whole) {
  return whole > 0 ? std::optional(part / whole) : std::nullopt;
}

}  // namespace

void WorkWindow::Add(uint64_t incarnation, const pb::Counters& counters, Time now) {
  const Totals totals = TotalsOf(counters, now);
  const bool is_new =
      incarnation != incarnation_ || (!totals_.empty() && totals.train_s < totals_.back().train_s);
  if (is_new) totals_.clear();
  incarnation_ = incarnation;
  totals_.push_back(totals);
  while (totals_.size() > 2 && (now - totals_[1].at >= kLength || totals_.size() > kMaxTotals))
    totals_.pop_front();
}

WorkRates WorkWindow::Rates() const {
  WorkRates rates;
  if (totals_.empty()) return rates;
  const Totals& newest = totals_.back();
  const Totals recent = Difference(newest, totals_.front());
  const Time length = newest.at - totals_.front().at;
  rates.samples_per_s = Ratio(recent.samples, Seconds(length)).value_or(0);
  const Totals& of_time = recent.train_s > 0 ? recent : newest;
  rates.computing = Ratio(of_time.compute_s, of_time.train_s);
  rates.coding = Ratio(of_time.encode_s + of_time.decode_s, of_time.train_s);
  rates.waiting = Ratio(setup::CommunicationOf(of_time.train_s, of_time.compute_s, of_time.decode_s,
                                               of_time.data_s, of_time.wait_s),
                        of_time.train_s);
  const Totals& of_steps = recent.rounds > 0 ? recent : newest;
  rates.up_bytes_per_step = Ratio(of_steps.up_bytes, of_steps.rounds);
  rates.down_bytes_per_step = Ratio(of_steps.down_bytes, of_steps.rounds);
  const Totals& of_trips = recent.round_trips > 0 ? recent : newest;
  rates.round_trip_s = Ratio(of_trips.round_trip_s, of_trips.round_trips);
  return rates;
}

WorkWindow::Totals WorkWindow::TotalsOf(const pb::Counters& counters, Time now) {
  const setup::WorkerTraffic traffic = setup::TrafficOf(counters);
  Totals totals;
  totals.at = now;
  totals.samples = static_cast<double>(counters.samples());
  totals.rounds = static_cast<double>(counters.rounds());
  totals.up_bytes = static_cast<double>(traffic.up_bytes);
  totals.down_bytes = static_cast<double>(traffic.down_bytes);
  totals.round_trips = static_cast<double>(counters.control_round_trips());
  totals.train_s = counters.train_s();
  totals.compute_s = counters.compute_s();
  totals.encode_s = counters.encode_s();
  totals.decode_s = counters.decode_s();
  totals.data_s = counters.data_s();
  totals.wait_s = counters.wait_s();
  totals.round_trip_s = counters.control_round_trip_s();
  return totals;
}

WorkWindow::Totals WorkWindow::Difference(const Totals& newest, const Totals& oldest) {
  Totals difference = newest;
  difference.samples -= oldest.samples;
  difference.rounds -= oldest.rounds;
  difference.up_bytes -= oldest.up_bytes;
  difference.down_bytes -= oldest.down_bytes;
  difference.round_trips -= oldest.round_trips;
  difference.train_s -= oldest.train_s;
  difference.compute_s -= oldest.compute_s;
  difference.encode_s -= oldest.encode_s;
  difference.decode_s -= oldest.decode_s;
  difference.data_s -= oldest.data_s;
  difference.wait_s -= oldest.wait_s;
  difference.round_trip_s -= oldest.round_trip_s;
  return difference;
}

}  // namespace tern::server
