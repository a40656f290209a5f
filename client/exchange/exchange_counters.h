// Measures how long this worker's exchanges (round trips of the whole model to the servers and
// back) take, and how stale its pushes were. The net thread owns the object, and calls its
// functions when pushes are sent and answers arrive. The metrics page reads the registry.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "common/base/counters.h"
#include "common/protocol/members/session/session.h"
#include "common/protocol/plan/plan.h"
#include "common/protocol/rounds/exchange.h"
#include "proto/wire.pb.h"

namespace tern::client {

class ExchangeCounters {
 public:
  // `plan` outlives this object.
  ExchangeCounters(const protocol::ExchangePlan& plan, Registry& registry);

  void OnPush(const protocol::Cell& cell, uint64_t exchange, Time now);
  void OnAnswer(const protocol::Exchange::Delivery& answer, Time now);
  // `trips`: the totals of all round trips (heartbeat to echo) of the session so far.
  void OnRoundTrips(const protocol::Session::RoundTrips& trips);
  // Drops the exchanges that are not complete, because their pushes will not be answered.
  void DropOpenExchanges() {
    open_exchanges_.clear();
    newest_answers_.clear();
  }
  // The number of completed exchanges of the whole model: rounds or, in a job without rounds,
  // pushes.
  uint64_t num_exchanges() const;
  // Sets the fields exchange_s, exchange_busy_s, exchanges and control_round_trip...; if pushes had
  // a staleness, also staleness and dropped.
  void AddTo(pb::Counters* counters) const;

 private:
  // One bin of the staleness histogram for each value from 0 to 31, and one for all larger values.
  static constexpr size_t kStalenessBins = 33;

  struct OpenExchange {
    Time first_push_at{};
    std::set<protocol::Cell> unanswered_cells;  // the chunks whose pushes have no answer yet
  };

  // Ends the wait for this cell in all exchanges up to `exchange`, and drops those that wait for
  // nothing more.
  void StopWaiting(const protocol::Cell& cell, uint64_t exchange, Time now);

  size_t num_chunks_ = 0;
  std::map<uint64_t, OpenExchange> open_exchanges_;  // by the number of the exchange
  // By cell: the newest exchange that was answered. A round that has closed without this worker's
  // push is answered before the push is sent.
  std::map<protocol::Cell, uint64_t> newest_answers_;
  Time busy_since_{};  // since when at least one exchange is open; unused if none is open
  TimeCounter &exchange_time_, &busy_time_;
  Counter &num_answers_, &num_dropped_;
  Histogram* staleness_ = nullptr;  // of pushes; null in jobs with rounds
  Histogram& control_trip_times_;
  protocol::Session::RoundTrips round_trips_;
};

}  // namespace tern::client
