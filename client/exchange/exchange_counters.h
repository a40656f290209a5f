// Measures how long this worker's exchanges take and how stale its pushes were. The net thread
// calls it when pushes leave and answers arrive, and owns it. The metrics page reads the registry.
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
  // `plan` outlives it.
  ExchangeCounters(const protocol::ExchangePlan& plan, Registry& registry);

  void OnPush(const protocol::Cell& cell, uint64_t exchange, Time now);
  void OnAnswer(const protocol::Exchange::Delivery& answer, Time now);
  // `trips`: the session's round trips on the control lane so far.
  void OnRoundTrips(const protocol::Session::RoundTrips& trips);
  // Drops the open exchanges: their pushes will not be answered.
  void Forget() { open_.clear(); }
  // Completed exchanges of the whole model: rounds, or this worker's clock.
  uint64_t exchanges() const;
  // Sets the fields exchange_s, exchanges, staleness, dropped and control_round_trip...
  void AddTo(pb::Counters* counters) const;

 private:
  static constexpr size_t kBins = 33;  // bins of the staleness: 0 to 31, and one for all above

  struct Open {
    Time begin{};
    std::set<protocol::Cell> pushes;  // those that are not answered yet
  };

  size_t chunks_ = 0;
  std::map<uint64_t, Open> open_;  // by the number of the exchange
  Time busy_since_{};              // since when at least one exchange is open; unused while none is
  TimeCounter &exchange_, &busy_;
  Counter &answers_, &dropped_;
  Histogram& staleness_;
  Histogram& control_;
  protocol::Session::RoundTrips trips_;
};

}  // namespace tern::client
