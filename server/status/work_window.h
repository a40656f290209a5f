// What a worker has done in the last ten seconds, from the counters in its heartbeats.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "common/base/clock.h"
#include "proto/counters.pb.h"

namespace tern::server {

// The fields have the meaning of those in WorkerRow (job_status.h).
struct WorkRates {
  double samples_per_s = 0;
  std::optional<double> computing, coding, waiting;
  std::optional<double> up_bytes_per_step, down_bytes_per_step;
  std::optional<double> round_trip_s;
};

class WorkWindow {
 public:
  static constexpr Time kLength = std::chrono::seconds(10);

  // `incarnation` identifies the worker's process, whose counters start from 0. Times do not
  // decrease from call to call.
  void Add(uint64_t incarnation, const pb::Counters& counters, Time now);
  // A share or a mean that the last ten seconds do not give, because there was no step, is that of
  // the whole process.
  WorkRates Rates() const;

 private:
  struct Totals {
    Time at{};
    double samples = 0, rounds = 0, up_bytes = 0, down_bytes = 0, round_trips = 0;
    double train_s = 0, compute_s = 0, encode_s = 0, decode_s = 0, data_s = 0;
    double wait_s = 0, round_trip_s = 0;
  };
  static Totals TotalsOf(const pb::Counters& counters, Time now);
  static Totals Difference(const Totals& newest, const Totals& oldest);

  uint64_t incarnation_ = 0;
  std::deque<Totals> totals_;  // the newest last; at most a kLength of them
};

}  // namespace tern::server
