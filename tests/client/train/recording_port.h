// A client::Port for tests: it records what a worker's coder sends to the servers.
#pragma once

#include <utility>
#include <vector>

#include "client/exchange/port.h"
#include "common/base/channel.h"

namespace tern::client {

// Puts every contribution (pushed codes or scalers) into a channel, from which the test takes it.
// Does nothing on all other calls.
class RecordingPort : public Port {
 public:
  struct Contribution {
    protocol::Cell cell;
    uint64_t round = 0, digest = 0;
    Bytes payload;
  };
  void Contribute(protocol::Cell cell, protocol::Contribution contribution) override {
    auto& in_round = std::get<protocol::InRound>(contribution);
    contributions.Push({cell, in_round.round, in_round.digest, std::move(in_round.payload)});
  }
  void ReportApplied(uint64_t) override {}
  void SendSnapshot(Bytes, uint64_t) override {}
  void OfferCheckpoints(std::vector<pb::Checkpoint>) override {}
  void ReportInstalled(uint64_t) override {}
  void Finish(Status, pb::Figures, uint64_t) override {}

  Channel<Contribution> contributions;
};

}  // namespace tern::client
