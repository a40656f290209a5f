// To which daemon and job a checkpoint must belong to be used.
//
// A job may go on with another number of workers, or with another layout: with the model divided
// otherwise over the server shards. Then the plan (how messages divide the model, and for how many
// workers) is another one, and everything else that is compared is the same.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "common/base/status.h"
#include "common/checkpoint/tag.h"
#include "proto/checkpoint.pb.h"

namespace tern::checkpoint {

// What a daemon does with checkpoints of its job that have another layout.
enum class OtherLayout {
  kForeign,   // they count as those of another job
  kLeftOver,  // it does not use them, because the job goes on without
  kTaken,     // it uses them
};

struct Owner {
  std::string folder;
  std::string name;         // the daemon's name, for example "worker.0"
  uint32_t workers = 0;     // how many workers the job has
  uint64_t job_digest = 0;  // of the job's keys that must not change on resume: config::StateDigest
  uint64_t model_digest = 0;
  uint64_t plan_digest = 0;  // of the exchange plan
  std::string job_text;      // the job as text: config::JobText
  // Whether the job may resume from checkpoints of the job with this text, although their digests
  // differ. nullptr: from none of them.
  std::function<bool(const std::string& job_text)> is_same_job = nullptr;
  // With a function, checkpoints and records without the right tag are not used.
  TagFunction tag_of = nullptr;
  uint64_t layout_digest = 0;  // protocol::LayoutDigest
  uint32_t shards = 0;         // how many server shards the job has
  // Whether checkpoints of the job with another number of workers are used.
  bool takes_other_workers = false;
  OtherLayout other_layout = OtherLayout::kForeign;
  // The same as is_same_job, for a checkpoint with another number of workers or another layout.
  std::function<bool(const std::string& job_text)> is_same_job_of_other_size = nullptr;
};

// What run.json says of the run that wrote a folder's checkpoints.
struct RunRecord {
  uint64_t run = 0;      // 0: there is no record
  std::string job_text;  // of the job that executes the run
  // Digests of the jobs that have executed the run, if the owner's job may resume from their
  // checkpoints.
  std::set<std::string> same_jobs;
};

// A manifest with the owner's name, job, model, plan, layout and number of workers.
pb::Manifest ManifestOf(const Owner& owner);

// kBadData if the manifest's owner, job, model, plan or number of workers is another's.
Status CheckOwner(const Owner& owner, const RunRecord& record, const pb::Manifest& manifest);
// Whether it is its layout alone for which CheckOwner refuses a manifest, and the owner's job goes
// on without it.
bool IsLeftOver(const Owner& owner, const RunRecord& record, const pb::Manifest& manifest);

// How the job that wrote the checkpoint differs in size from the owner's. REQUIRES a manifest that
// CheckOwner accepts. OtherWorkers: its number of workers; 0: the same. ShardsOfOtherLayout: its
// number of shards (0: unknown) if its layout was another; else nullopt.
uint32_t OtherWorkers(const Owner& owner, const pb::Manifest& manifest);
std::optional<uint32_t> ShardsOfOtherLayout(const Owner& owner, const pb::Manifest& manifest);

// "its WHAT is SEEN, expected EXPECTED", as kBadData.
Status MismatchError(const std::string& what, const std::string& seen, const std::string& expected);
// The number in 16 hexadecimal digits; nullopt if the text is something else.
std::optional<uint64_t> ParseHex(const std::string& text);

}  // namespace tern::checkpoint
