#include "setup/saved.h"

#include <algorithm>
#include <string>

#include "common/algorithm/facts.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/config/canonical.h"
#include "common/config/differences.h"
#include "common/protocol/rounds/round_cell.h"
#include "setup/own_state.h"

namespace tern::setup {

namespace {

constexpr size_t kMaxNamedKeys = 3;

// Where the servers are does not matter to a resume.
void ClearAddresses(pb::Job* job) {
  for (pb::Server& server : *job->mutable_servers()) server.clear_address();
}

// Only the keys of the job that say how many servers and workers it has.
pb::Job SizeOf(const pb::Job& job) {
  pb::Job size;
  *size.mutable_servers() = config::WithoutLocalKeys(job).servers();
  ClearAddresses(&size);
  size.mutable_workers()->set_count(job.workers().count());
  if (job.workers().has_max()) size.mutable_workers()->set_max(job.workers().max());
  return size;
}

// The keys that differ between the job in `text` and `job`, and whose difference prevents a resume;
// empty if there are none, or if `text` is not readable.
std::string DifferencesOf(const std::string& text, const pb::Job& job) {
  const Result<pb::Job> old_job = config::ReadJobText(text);
  if (!old_job.ok()) return "";
  std::vector<std::string> differences = config::DifferencesAtResume(*old_job, job);
  if (differences.empty()) {
    // The list of servers decides which shard saves which part of the model.
    differences = config::Differences(SizeOf(*old_job), SizeOf(job));
  }
  const size_t num_named = std::min(differences.size(), kMaxNamedKeys),
               num_more = differences.size() - num_named;
  differences.resize(num_named);
  return Join(differences, "; ") +
         (num_more == 0 ? "" : Cat("; and ", num_more, num_more == 1 ? " key" : " keys", " more"));
}

// The keys, without addresses, that differ between the job in `text` and that of `setup`, and what
// it loses by that; empty if `text` is not readable.
std::string ChangesSince(const std::string& text, const Setup& setup) {
  const Result<pb::Job> old_job = config::ReadJobText(text);
  if (text.empty() || !old_job.ok()) return "";
  pb::Job before = config::WithoutLocalKeys(*old_job), now = config::WithoutLocalKeys(setup.job);
  ClearAddresses(&before);
  ClearAddresses(&now);
  std::vector<std::string> sentences = config::Differences(before, now);
  for (std::string& sentence : WhatIsDropped(*old_job, setup))
    sentences.push_back(std::move(sentence));
  return Join(sentences, "; ");
}

}  // namespace

std::vector<pb::Checkpoint> OffersOf(const checkpoint::Store& store, checkpoint::Kind kind) {
  std::vector<pb::Checkpoint> offers;
  for (const checkpoint::Point& point : store.points()) {
    if (store.KindOf(point) != kind) continue;
    pb::Checkpoint& offer = offers.emplace_back();
    offer.set_run(point.run);
    offer.set_step(point.step);
    offer.set_round(point.round);
    if (point.weights_hash != 0) offer.set_weights_hash(point.weights_hash);
    if (point.other_workers != 0) offer.set_workers(point.other_workers);
    if (point.shards_of_other_layout.has_value()) offer.set_shards(*point.shards_of_other_layout);
  }
  return offers;
}

std::string ChangesAtResume(const Setup& setup, const checkpoint::Store& store, uint64_t run) {
  return ChangesSince(store.JobTextOf(run), setup);
}

std::string ChangesSinceLastRun(const Setup& setup) {
  checkpoint::Store store(CheckpointOwner(setup, setup.job.output_dir(), "worker.0"), {});
  store.ReadRecord();
  return ChangesSince(store.JobTextOf(std::nullopt), setup);
}

namespace {

// Why these checkpoints, of which there is at least one, cannot be used.
pb::Unfit WhyUnfit(const Setup& setup, const checkpoint::Store& store,
                   const std::vector<checkpoint::RefusedCheckpoint>& refused) {
  pb::Unfit unfit;
  const auto of_other_job = std::find_if(
      refused.rbegin(), refused.rend(),
      [](const checkpoint::RefusedCheckpoint& of_store) { return of_store.is_foreign; });
  const bool is_other = of_other_job != refused.rend();
  const checkpoint::RefusedCheckpoint& newest = is_other ? *of_other_job : refused.back();
  std::string reason = is_other ? DifferencesOf(store.JobTextOf(newest.run), setup.job) : "";
  if (reason.empty()) reason = newest.reason;
  unfit.set_other_job(is_other);
  const std::string up_to_step = Cat(" has checkpoints up to step ", newest.step);
  std::string what = newest.step != 0 ? up_to_step + ", which are damaged: " : ": ";
  if (newest.is_left_over) what = up_to_step + ", of other servers: ";
  if (is_other) what = up_to_step + " of another job: ";
  unfit.set_sentence(Cat(store.folder(), what, reason));
  return unfit;
}

}  // namespace

protocol::SavedCheckpoints FindSaved(const Setup& setup, const checkpoint::Store& store) {
  protocol::SavedCheckpoints saved{
      OffersOf(store), {}, store.own_recorded_run(), OffersOf(store, checkpoint::Kind::kShard)};
  std::vector<checkpoint::RefusedCheckpoint> refused = store.refused_checkpoints();
  const bool has_usable = std::any_of(
      store.points().begin(), store.points().end(),
      [&](const checkpoint::Point& point) { return point.run == store.own_recorded_run(); });
  if (!refused.empty() && !has_usable && store.own_recorded_run() != 0)
    saved.unfit_in_run = WhyUnfit(setup, store, refused);
  // The checkpoints that only shards write are useless for a new run, so it does not matter if they
  // are damaged.
  std::erase_if(refused,
                [](const auto& of_store) { return of_store.kind == checkpoint::Kind::kShard; });
  if (!refused.empty()) saved.unfit = WhyUnfit(setup, store, refused);
  return saved;
}

uint32_t NumCheckpointsToKeep(const Setup& setup) {
  const pb::Checkpoints& keys = setup.job.checkpoints();
  if (keys.every_steps() == 0) return 0;
  const algorithm::Facts facts = algorithm::FactsOf(setup.job);
  if (facts.num_backup_workers == 0) return keys.keep();
  const uint64_t every_rounds = std::max<uint64_t>(1, keys.every_steps() / facts.period);
  const size_t max_distance = protocol::MaxElasticSlots(facts.window, protocol::kMaxAhead);
  const uint64_t least_kept = protocol::MinCheckpointsToKeep(every_rounds, max_distance);
  return std::max(keys.keep(), static_cast<uint32_t>(least_kept));
}

bool CanCheckpointOnRequest(const Setup& setup) {
  if (setup.job.checkpoints().every_steps() == 0) {
    LOG(WARNING) << "SIGUSR1: no checkpoint is written, because the job has none; set "
                    "checkpoints.every_steps";
    return false;
  }
  if (!setup.plan.has_rounds) {
    LOG(WARNING) << "SIGUSR1: no checkpoint is written, because " << setup.job.train().algorithm()
                 << " has no rounds; its servers write one every checkpoints.every_steps steps ("
                 << setup.job.checkpoints().every_steps() << ")";
    return false;
  }
  return true;
}

}  // namespace tern::setup
