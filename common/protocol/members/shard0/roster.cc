#include "common/protocol/members/shard0/roster.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/hash.h"
#include "common/base/invariants.h"
#include "common/base/text.h"
#include "common/protocol/members/shard0/add_counters.h"

namespace tern::protocol {
namespace {

constexpr size_t kMaxRetired = 8;  // how many incarnations Worker::retired_incarnations keeps
// An epoch that is greater than kLargeEpoch counts only if another worker's is at most
// kMaxEpochLead smaller.
constexpr uint64_t kLargeEpoch = uint64_t{1} << 40, kMaxEpochLead = uint64_t{1} << 20;

// Names the process that sent the hello.
uint64_t NameOf(const pb::Hello& hello) {
  return Digest(std::string_view(Cat(hello.host(), " ", hello.pid())));
}

Status CheckWorker(const Roster::Worker& worker, size_t rank) {
  using Presence = Roster::Worker::Presence;
  // A worker that is not live may have no incarnation (random number of its process): after a
  // restart, shard 0 may know of it only that the other workers continue without it.
  TERN_HOLDS(!worker.live() || worker.incarnation != 0, "roster: worker ", rank,
             " is there, and has no incarnation");
  TERN_HOLDS(worker.presence != Presence::kAbsent || worker.incarnation == 0, "roster: worker ",
             rank, " is absent, and its incarnation is ", worker.incarnation);
  TERN_HOLDS(worker.live() || (!worker.joining && !worker.is_awaited), "roster: worker ", rank,
             " is joining or awaited, and not live");
  TERN_HOLDS(!worker.may_return || worker.presence == Presence::kLost, "roster: worker ", rank,
             " may return, and was not lost");
  TERN_HOLDS(std::count(worker.retired_incarnations.begin(), worker.retired_incarnations.end(),
                        worker.incarnation) == 0,
             "roster: worker ", rank, " has the incarnation ", worker.incarnation,
             ", which was retired");
  return Ok();
}

}  // namespace

void Roster::Worker::Forget() {
  Worker absent;
  absent.counters = std::move(counters);
  absent.earlier = std::move(earlier);
  absent.process = incarnation == 0 ? process : Process{NameOf(hello), progress};
  *this = std::move(absent);
}

void Roster::Worker::Retire() {
  std::vector<uint64_t> incarnations = std::move(retired_incarnations);
  if (incarnation != 0) incarnations.push_back(incarnation);
  if (incarnations.size() > kMaxRetired) incarnations.erase(incarnations.begin());
  Forget();
  retired_incarnations = std::move(incarnations);
}

bool Roster::Worker::Process::HasSent(const pb::Hello& hello) const {
  return NameOf(hello) == name && hello.progress() >= progress;
}

void Roster::Worker::CountFor(const pb::Hello& hello) {
  if (!process.HasSent(hello)) {
    AddCounters(counters, &earlier);
    counters.Clear();
    return;
  }
  // Where it is now, its next heartbeat says.
  counters.set_job_step(0);
  counters.clear_from_step();
  counters.clear_checkpoint_step();
  counters.clear_planning_s();
}

pb::Counters Roster::Worker::CountersOfAll() const {
  pb::Counters all = counters;
  AddCounters(earlier, &all);
  // A process that has not trained yet is at no step, whatever those before have done.
  if (!all.has_job_step() && all.rounds() != 0) all.set_job_step(0);
  return all;
}

Roster::Worker* Roster::MemberOf(Peer from, uint32_t rank, uint64_t incarnation) {
  if (rank >= workers.size()) return nullptr;
  Worker& worker = workers[rank];
  if (!safeguards.fence_incarnations) return &worker;
  if (incarnation == 0 || worker.incarnation != incarnation) return nullptr;
  if (safeguards.fence_connections && worker.peer != from) return nullptr;
  return worker.presence == Worker::Presence::kAbsent ? nullptr : &worker;
}

bool Roster::IsOnAnotherConnection(Peer from, uint32_t rank, uint64_t incarnation) const {
  return safeguards.checks_connections() && rank < workers.size() && incarnation != 0 &&
         workers[rank].incarnation == incarnation && workers[rank].peer != from;
}

Roster::Worker* Roster::FindByPeer(Peer peer) {
  for (Worker& worker : workers) {
    if (worker.peer == peer && peer != 0) return &worker;
  }
  return nullptr;
}

bool Roster::HasPeer(Peer peer) const {
  return std::any_of(workers.begin(), workers.end(),
                     [peer](const Worker& worker) { return worker.peer == peer && peer != 0; });
}

bool Roster::AllShardsAreHere() const {
  return std::all_of(shards.begin(), shards.end(),
                     [](const auto& shard) { return shard.second.peer != 0; });
}

size_t Roster::NumLive() const {
  return static_cast<size_t>(std::count_if(workers.begin(), workers.end(),
                                           [](const Worker& worker) { return worker.live(); }));
}

std::string Roster::LiveText() const { return Cat(NumLive(), " of ", workers.size(), " workers"); }

std::string Roster::Name(uint32_t rank) const {
  const pb::Hello& hello = workers[rank].hello;
  return Cat("worker ", rank, " (", hello.host(), ", pid ", hello.pid(), ")");
}

bool Roster::MayHoldStateBeside(const Worker* except) const {
  return std::any_of(workers.begin(), workers.end(), [except](const Worker& worker) {
    const bool has_state = worker.live() && !worker.joining;
    return &worker != except && (has_state || worker.may_return);
  });
}

bool Roster::SomeWorkerLoadsState() const {
  return std::any_of(workers.begin(), workers.end(), [](const Worker& worker) {
    return worker.live() && worker.joining && worker.joins_from_begin;
  });
}

bool Roster::NobodyHoldsState() const {
  return std::none_of(workers.begin(), workers.end(), [](const Worker& worker) {
    return worker.live() && (!worker.hello.fresh() || worker.hello.done());
  });
}

bool Roster::AnyLiveKeepsOwn() const {
  return std::any_of(workers.begin(), workers.end(), [](const Worker& worker) {
    return worker.live() && worker.hello.keeps_own();
  });
}

bool Roster::KnowsRun(uint64_t number) const {
  return number != 0 && std::any_of(workers.begin(), workers.end(), [number](const Worker& worker) {
           return worker.live() && worker.hello.run() == number;
         });
}

uint64_t Roster::NewestEpoch() const {
  std::vector<uint64_t> epochs = {0};
  for (const Worker& worker : workers) {
    if (worker.live()) epochs.push_back(worker.epoch);
  }
  std::sort(epochs.begin(), epochs.end());
  while (epochs.back() > kLargeEpoch && epochs.back() - epochs[epochs.size() - 2] > kMaxEpochLead)
    epochs.pop_back();
  return epochs.back();
}

Status Roster::Check() const {
  for (size_t rank = 0; rank < workers.size(); ++rank)
    TERN_RETURN_IF_ERROR(CheckWorker(workers[rank], rank));
  return Ok();
}

}  // namespace tern::protocol
