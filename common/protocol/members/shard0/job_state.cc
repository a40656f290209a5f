#include "common/protocol/members/shard0/job_state.h"

#include <utility>

#include "common/base/invariants.h"

namespace tern::protocol {
namespace {

using Phase = JobState::Phase;

RoundLane::Options LaneOptions(const ControlOptions& options) {
  RoundLane::Options lane = ControlLaneOptions(options);
  lane.welcomes = false;  // the coordinator does, with more to say
  return lane;
}

[[maybe_unused]] bool MayFollow(Phase from, Phase next) {
  switch (next) {
    case Phase::kGathering:
      return false;
    case Phase::kResuming:
      return from == Phase::kGathering;
    case Phase::kCalling:
      return from == Phase::kRunning || from == Phase::kResuming;
    case Phase::kAsking:
      return from == Phase::kResuming || from == Phase::kCalling;
    case Phase::kRunning:
      return from != Phase::kRunning && from != Phase::kEnding;
    case Phase::kEnding:
      return from != Phase::kEnding;
  }
  return false;
}

}  // namespace

JobState::JobState(ControlOptions given, std::vector<CellSpec> cells)
    : options(std::move(given)),
      lane(LaneOptions(options), std::move(cells)),
      roster(options.workers, options.safeguards.fence_incarnations) {}

void JobState::Become(Phase next) {
  TERN_REQUIRES(MayFollow(phase_, next), "coordinator: phase ", static_cast<int>(next),
                " cannot follow phase ", static_cast<int>(phase_));
  phase_ = next;
}

Status JobState::Check() const {
  TERN_RETURN_IF_ERROR(roster.Check());
  TERN_HOLDS(beginning != 0 || !begin.from.has_value(),
             "coordinator: the job began from a checkpoint, and has no beginning");
  if (!running()) return Ok();
  for (const Roster::Worker& worker : roster.workers) {
    TERN_HOLDS(!worker.live() || (worker.epoch != 0 && worker.epoch <= roster.epoch),
               "coordinator: worker ", worker.hello.rank(), " was admitted in epoch ", worker.epoch,
               ", the job's is ", roster.epoch);
  }
  return Ok();
}

}  // namespace tern::protocol
