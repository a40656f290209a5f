// A worker process of a toy job with rounds: what it trains, and how it checks the answers.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "tests/sim/toy_worker.h"

namespace tern::sim {

class RoundWorker : public ToyWorker {
 public:
  RoundWorker(World* world, uint32_t process, uint32_t rank, uint64_t incarnation);
  bool HasRightState() const override;

 protected:
  Bytes SaveState() const override { return EncodeReplica(replica_); }
  void OnInstall(const Bytes& state) override;
  void OnGoBack() override;
  void OnReady(uint64_t stop_after) override;
  void OnAnswer(const protocol::Exchange::Delivery& answer) override;
  void Step() override;

 private:
  // The answers of a round that have come, until the round is applied.
  struct Round {
    std::array<Bytes, kBuckets * kChunks> sums;
    uint32_t answers = 0;
    std::array<bool, kBuckets> has_scaled{};
    std::array<uint64_t, kBuckets> scaled{};
    Bytes figures;
  };

  void OnPulled(const protocol::Exchange::Delivery& answer);
  void Give(const protocol::Cell& cell, uint64_t round, uint64_t digest, uint64_t word);
  void GiveFigures();
  // Applies complete rounds, and starts the next step if it may begin.
  void GoOn();
  void PushBucket(uint64_t round, uint32_t bucket);
  void CheckAnswer(const protocol::Exchange::Delivery& answer);
  bool ApplyOne();
  void Apply(const Round& round);
  void CheckFigures(const Bytes& figures);
  void FinishIfDone();
  // The round of the job's last step.
  uint64_t last() const;
  bool IsDone() const;
  // The state at which the gradient of `round` is taken.
  const State& PointOf(uint64_t round) const;

  uint32_t awaited_ = 0;  // cells whose pulled weights have not come yet
  bool finishing_ = false;
  uint64_t figures_of_ = 0;  // the newest round to which it contributed figures
  bool computing_ = false;   // a step has begun and has not ended
  Replica replica_;
  uint64_t stepped_ = 0, stop_after_ = 0;
  std::map<uint64_t, Round> rounds_;
};

}  // namespace tern::sim
