// A simulated worker process of a job with rounds: makes its contributions to the rounds and checks
// every answer of the servers. For each bucket that a round exchanges, a worker first sends a
// scaler and then pushes the bucket's chunks. Figures are metrics that workers exchange after some
// rounds. Class ToyWorker has the part that does not depend on rounds.
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
  bool FlipBit() override;

 protected:
  Bytes SaveState() const override { return EncodeReplica(replica_); }
  void OnInstall(const Bytes& state) override;
  void OnGoBack() override;
  void OnReady(uint64_t stop_after) override;
  void OnAnswer(const protocol::Exchange::Delivery& answer) override;
  void MakeStep() override;

 private:
  // The answers of a round that have arrived so far. Erased when the round is applied.
  struct Round {
    std::array<Bytes, kNumBuckets * kNumChunks> sums;  // the answer for each chunk
    uint32_t num_answers = 0;                          // sums and figures that have arrived
    std::array<bool, kNumBuckets> has_largest_scaler{};
    // For each bucket: the largest scaler of all workers.
    std::array<uint64_t, kNumBuckets> largest_scalers{};
    Bytes figures;
  };

  // Handles the weights that a pull returned.
  void OnPulled(const protocol::Exchange::Delivery& answer);
  // Contributes `word` to a cell in a round, or says that this worker skips the round.
  void ContributeWord(const protocol::Cell& cell, uint64_t round, uint64_t digest, uint64_t word);
  // Contributes figures if the workers exchange figures after the newest applied round, or if only
  // the last figures are missing.
  void ContributeFigures();
  // Applies rounds as long as the next round is complete. Then starts the next step if the window
  // (the limit of open rounds) allows it.
  void ApplyAndStep();
  void PushBucket(uint64_t round, uint32_t bucket);
  void CheckAnswer(const protocol::Exchange::Delivery& answer);
  // Applies the next round if all its answers have arrived. Returns whether it did.
  bool ApplyNextRound();
  void ApplyAnswers(const Round& round);
  void CheckFigures(const Bytes& figures);
  void FinishIfDone();
  // The number of the round of the job's last step.
  // Whether a checkpoint is due after this round, a regular one or one that was asked for.
  bool IsCheckpointDue(uint64_t round) const;
  uint64_t last_step_round() const;
  bool IsDone() const;
  // The state at which the gradient of `round` is computed.
  const State& GradientStateOf(uint64_t round) const;

  uint32_t num_awaited_ = 0;          // number of chunks whose pulled weights have not arrived yet
  bool awaits_last_figures_ = false;  // all rounds are applied; only the last figures are missing
  uint64_t figures_round_ = 0;        // the newest round to which this worker contributed figures
  bool is_computing_ = false;         // a step has begun and has not ended
  // Whether a bit of replica_ has flipped since it was installed.
  bool has_flipped_bit_ = false;
  Replica replica_;
  uint64_t newest_begun_round_ =
      0;                     // the newest round for which this worker has begun to contribute
  uint64_t save_after_ = 0;  // the newest round after which a checkpoint was asked for; 0: none
  uint64_t stop_after_ = 0;  // the round after which shard 0 wants the job to stop; 0: none
  std::map<uint64_t, Round> rounds_;  // the rounds that are not applied yet, by number
};

}  // namespace tern::sim
