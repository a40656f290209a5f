#include "common/protocol/members/shard0/job_state.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/base/invariants.h"

namespace tern::protocol {
namespace {

RoundLane::Options LaneOptions(const ControlOptions& options) {
  RoundLane::Options lane_options = ControlLaneOptions(options);
  lane_options.answers_hellos = false;  // the Coordinator sends Welcome itself, with more fields
  return lane_options;
}

[[maybe_unused]] bool MayFollow(JobPhase from, JobPhase next) {
  switch (next) {
    case JobPhase::kGathering:
      return false;
    case JobPhase::kResuming:
      return from == JobPhase::kGathering;
    case JobPhase::kCalling:
      return from == JobPhase::kRunning || from == JobPhase::kResuming;
    case JobPhase::kAsking:
      return from == JobPhase::kResuming || from == JobPhase::kCalling;
    case JobPhase::kRunning:
      return from != JobPhase::kRunning && from != JobPhase::kEnding;
    case JobPhase::kEnding:
      return from != JobPhase::kEnding;
  }
  return false;
}

[[maybe_unused]] const char* NameOf(JobPhase phase) {
  static constexpr const char* kNames[] = {"gathering", "resuming", "calling",
                                           "asking",    "running",  "ending"};
  return kNames[static_cast<size_t>(phase)];
}

constexpr RateLimiter kPassages(10, std::chrono::seconds(1));

}  // namespace

JobState::JobState(ControlOptions given, std::vector<CellSpec> cells)
    : options(std::move(given)),
      lane(LaneOptions(options), std::move(cells)),
      roster(options.workers, options.safeguards),
      coming_logs_(options.workers, kPassages),
      going_logs_(options.workers, kPassages) {}

void JobState::Become(JobPhase next) {
  TERN_REQUIRES(MayFollow(phase_, next), "a job that is ", NameOf(phase_), " cannot become ",
                NameOf(next));
  phase_ = next;
}

uint64_t JobState::NewestTrustedRound() const {
  const Agreement& agreement = lane.agreement();
  if (!agreement.status.ok()) return std::max(agreement.newest_round, begin.round());
  if (!repaired_from.has_value() || agreement.newest_round > repaired_from->round())
    return kAnyRound;
  return repaired_from->round();
}

void JobState::LogComing(uint32_t rank, const std::string& text, Time now, ControlActions* out) {
  RateLimiter& limiter = coming_logs_[rank];
  if (limiter.Allow(now)) EmitNormalLog(text + limiter.TakeAndMore(), out);
}

void JobState::LogGoing(uint32_t rank, const std::string& text, Time now, ControlActions* out) {
  RateLimiter& limiter = going_logs_[rank];
  if (limiter.Allow(now)) EmitLog(text + limiter.TakeAndMore(), out);
}

Status JobState::Check() const {
  TERN_RETURN_IF_ERROR(roster.Check());
  TERN_HOLDS(beginning != 0 || !begin.checkpoint.has_value(),
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
