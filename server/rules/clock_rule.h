// Algorithms without rounds, as cells of a ClockLane: one short file each, with the paper's
// equation, and one line in the table of clock_rules.cc.
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

// The base of every rule: one chunk of central parameters and its links to the workers. A rule's
// Take defines what a push does. Belongs to the thread of its lane.
class ClockRule : public protocol::ClockCell {
 public:
  ClockRule(std::unique_ptr<CentralChunk> central, Rate rate);

  Status Push(uint32_t rank, uint64_t base, const Bytes& payload) final;
  uint64_t version() const final { return central_->version(); }
  Answer Pull(uint32_t rank, std::optional<uint64_t> holds) override;
  Bytes Average() const final { return WholeBytes(central_->average()); }

  protocol::Cell cell() const;
  std::span<const float> weights() const { return central_->weights(); }
  uint64_t pushes() const { return pushes_; }
  // Rules with state of their own override it.
  virtual void AddState(SavedState* state);

 protected:
  // Applies the push of `rank`, computed at version `base`: values[0, count), which it may
  // overwrite.
  virtual void Take(uint32_t rank, uint64_t base, std::span<float> values) = 0;

  CentralChunk& central() { return *central_; }
  const pb::Train& train() const { return central_->setup().job.train(); }
  uint32_t workers() const { return central_->setup().plan.workers; }
  // The rate of this push. Schedules run on global steps: the number of steps in which all workers
  // together process as many samples.
  double learning_rate() const;
  // The weights that `rank` holds since its newest answer, which encoded w.
  std::span<const float> Held(uint32_t rank, std::span<const float> w) const {
    return down_.Held(rank, w);
  }
  Answer Encode(uint32_t rank, std::span<const float> w, std::optional<uint64_t> holds) {
    return down_.Encode(rank, w, version(), holds);
  }

 private:
  std::unique_ptr<CentralChunk> central_;
  DownLink down_;
  const Rate rate_;
  const algorithm::Facts facts_;
  uint64_t pushes_ = 0;  // before this one
  std::vector<float> values_;
};

}  // namespace tern::server
