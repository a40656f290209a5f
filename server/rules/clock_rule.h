// The server's side of an algorithm without rounds. A ClockRule is one cell (the weights of one
// chunk of the model) of a ClockLane, the state machine that handles the pushes and pulls of such
// cells. Each algorithm has a file of its own in this folder, with the paper's equation, and a line
// in the table of clock_rules.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/algorithm/facts.h"
#include "common/protocol/rounds/clock_lane.h"
#include "server/central/central.h"
#include "server/central/down_link.h"

namespace tern::server {

// The base class of all rules. A rule has the server's weights of one chunk, and encodes the
// answers to workers. Its ApplyPush defines what a push does to the weights. Only the lane's thread
// uses it.
class ClockRule : public protocol::ClockCell {
 public:
  ClockRule(std::unique_ptr<CentralChunk> central, Rate rate);

  Status Push(uint32_t rank, uint64_t base, const Bytes& payload) final;
  uint64_t version() const final { return central_chunk_->version(); }
  Answer Pull(uint32_t rank, std::optional<uint64_t> held_version) override;
  Bytes Average() const final { return Fp32Bytes(central_chunk_->average()); }

  protocol::Cell cell() const;
  std::span<const float> weights() const { return central_chunk_->weights(); }
  // How many pushes of all ranks were applied.
  uint64_t pushes() const { return pushes_; }
  // Adds the rule's state to what checkpoints save and restore. A rule with additional state
  // overrides this method.
  virtual void AddState(SavedState* state);

 protected:
  // Applies the decoded push of worker `rank` to central(). `base`: the version of the weights at
  // which the worker computed the push. `values` has one element per element of the chunk, and may
  // be overwritten.
  virtual void ApplyPush(uint32_t rank, uint64_t base, std::span<float> values) = 0;

  CentralChunk& central() { return *central_chunk_; }
  const pb::Train& train() const { return central_chunk_->setup().job.train(); }
  uint32_t workers() const { return central_chunk_->setup().plan.workers; }
  // The learning rate for the current push. Schedules count global steps: one global step processes
  // as many samples as one step of all workers together.
  double learning_rate() const;
  // The weights that worker `rank` has after its newest answer, which encoded w.
  std::span<const float> HeldWeights(uint32_t rank, std::span<const float> w) const {
    return down_link_.HeldWeights(rank, w);
  }
  // Encodes w, which is the current version of the weights, for worker `rank`, which has version
  // `held_version` (nullopt: none).
  Answer Encode(uint32_t rank, std::span<const float> w, std::optional<uint64_t> held_version) {
    return down_link_.Encode(rank, w, version(), held_version);
  }

 private:
  std::unique_ptr<CentralChunk> central_chunk_;
  DownLink down_link_;
  const Rate rate_;
  const algorithm::Facts facts_;
  uint64_t pushes_ = 0;        // the applied pushes; a push that is being applied does not count
  std::vector<float> values_;  // the decoded push
};

}  // namespace tern::server
