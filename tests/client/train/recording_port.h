#pragma once

#include <utility>
#include <vector>

#include "client/exchange/port.h"
#include "common/base/channel.h"

namespace tern::client {

// Records the coder's calls, for the test to deliver.
class RecordingPort : public Port {
 public:
  struct Contribution {
    protocol::Cell cell;
    uint64_t round = 0, digest = 0;
    Bytes payload;
  };
  void Contribute(protocol::Cell cell, uint64_t round, uint64_t digest, Bytes payload,
                  protocol::Request) override {
    contributions.Push({cell, round, digest, std::move(payload)});
  }
  void Applied(uint64_t) override {}
  void Snapshot(Bytes, uint64_t) override {}
  void Offer(std::vector<pb::Checkpoint>) override {}
  void Installed(uint64_t) override {}
  void Finish(Status, pb::Figures, uint64_t) override {}

  Channel<Contribution> contributions;
};

}  // namespace tern::client
