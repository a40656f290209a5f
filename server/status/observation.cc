#include "server/status/observation.h"

#include <algorithm>

#include "common/base/text.h"

namespace tern::server {

namespace {

constexpr size_t kMaxHostBytes = 64;

using Worker = protocol::Roster::Worker;

std::string StateOf(const Worker& worker, bool is_running) {
  switch (worker.presence) {
    case Worker::Presence::kAbsent:
      return "absent";
    case Worker::Presence::kDone:
      return "done";
    case Worker::Presence::kLost:
      if (worker.has_left) return "left";
      return worker.is_stuck ? "stuck" : "lost";
    case Worker::Presence::kPresent:
      break;
  }
  if (worker.suspect || worker.is_awaited) return "silent";
  if (!is_running) return "waiting";
  if (worker.joining) return "joining";
  return worker.counters.planning_s() > 0 ? "planning" : "training";
}

std::optional<Time> SilenceOf(Time heard_at, Time now) {
  if (heard_at == Time{}) return std::nullopt;
  return std::max(now - heard_at, Time{});
}

WorkerObservation ObserveWorker(const Worker& worker, bool is_running, Time now) {
  WorkerObservation seen;
  seen.state = StateOf(worker, is_running);
  seen.host = Printable(worker.hello.host(), kMaxHostBytes);
  seen.pid = worker.hello.pid();
  seen.incarnation = worker.incarnation;
  seen.is_present = worker.live();
  seen.is_joining = worker.joining;
  seen.counters = worker.counters;
  seen.earlier = worker.earlier;
  if (worker.presence != Worker::Presence::kAbsent) seen.silent = SilenceOf(worker.heard_at, now);
  return seen;
}

}  // namespace

Observation Observe(const protocol::Coordinator& coordinator, Time now) {
  Observation seen;
  if (coordinator.running()) seen.state = "running";
  if (coordinator.job().going_back()) seen.state = "returning";
  if (coordinator.ending()) seen.state = "ending";
  for (const Worker& worker : coordinator.workers())
    seen.workers.push_back(ObserveWorker(worker, coordinator.running(), now));
  for (const auto& [number, shard] : coordinator.job().roster.shards) {
    ShardObservation& seen_shard = seen.shards.emplace_back();
    seen_shard.shard = number;
    if (shard.peer == 0) continue;
    seen_shard.state = shard.is_silent ? "silent" : "present";
    seen_shard.host = Printable(shard.hello.host(), kMaxHostBytes);
    seen_shard.silent = SilenceOf(shard.heard_at, now);
  }
  seen.failed_checkpoints = coordinator.FailedShardCheckpoints();
  return seen;
}

}  // namespace tern::server
