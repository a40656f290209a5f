#include "common/checkpoint/owner.h"

#include <charconv>

#include "common/base/hash.h"
#include "common/base/text.h"

namespace tern::checkpoint {

namespace {

bool HasOtherLayout(const pb::Manifest& manifest, const pb::Manifest& expected) {
  return manifest.plan() != expected.plan() &&
         (!manifest.has_layout() || manifest.layout() != expected.layout());
}

bool IsOfSameRun(const RunRecord& record, const pb::Manifest& manifest) {
  return ParseHex(manifest.run()) == record.run && record.same_jobs.contains(manifest.job());
}

// Whether the manifest's plan may differ, because the job's number of workers or its layout does,
// and the job is the same otherwise.
bool MayHaveOtherPlan(const Owner& owner, const RunRecord& record, const pb::Manifest& manifest,
                      const pb::Manifest& expected) {
  const bool has_other_layout = HasOtherLayout(manifest, expected);
  if (manifest.workers() == expected.workers() && !has_other_layout) return false;
  if (has_other_layout && owner.other_layout != OtherLayout::kTaken) return false;
  return manifest.job() == expected.job() || (owner.is_same_job_of_other_size != nullptr &&
                                              owner.is_same_job_of_other_size(record.job_text));
}

}  // namespace

std::optional<uint64_t> ParseHex(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Status MismatchError(const std::string& what, const std::string& seen,
                     const std::string& expected) {
  return Status(Code::kBadData,
                Cat("its ", what, " is ", Printable(seen), ", expected ", expected));
}

pb::Manifest ManifestOf(const Owner& owner) {
  pb::Manifest manifest;
  manifest.set_job(Hex(owner.job_digest));
  manifest.set_model(Hex(owner.model_digest));
  manifest.set_plan(Hex(owner.plan_digest));
  manifest.set_owner(owner.name);
  manifest.set_workers(owner.workers);
  if (owner.layout_digest != 0) manifest.set_layout(Hex(owner.layout_digest));
  if (owner.shards != 0) manifest.set_shards(owner.shards);
  return manifest;
}

Status CheckOwner(const Owner& owner, const RunRecord& record, const pb::Manifest& manifest) {
  const pb::Manifest expected = ManifestOf(owner);
  if (manifest.owner() != expected.owner())
    return MismatchError("owner", manifest.owner(), expected.owner());
  if (manifest.model() != expected.model())
    return MismatchError("model digest", manifest.model(), expected.model());
  if (manifest.workers() != expected.workers() && !owner.takes_other_workers)
    return MismatchError("number of workers", Cat(manifest.workers()), Cat(expected.workers()));
  if (manifest.job() != expected.job() && !IsOfSameRun(record, manifest)) {
    return Status(Code::kBadData,
                  Cat("it is of a job with other settings (digest ", Printable(manifest.job()),
                      ", expected ", expected.job(),
                      "): only the length of a job, its schedule, servers, numbers of workers, "
                      "faults, evaluation, metrics and checkpoints may change when it resumes from "
                      "a checkpoint, and what checkpoints.accept names"));
  }
  if (manifest.plan() != expected.plan() && !MayHaveOtherPlan(owner, record, manifest, expected))
    return MismatchError("plan digest", manifest.plan(), expected.plan());
  return Ok();
}

bool IsLeftOver(const Owner& owner, const RunRecord& record, const pb::Manifest& manifest) {
  if (owner.other_layout != OtherLayout::kLeftOver) return false;
  Owner taker = owner;
  taker.other_layout = OtherLayout::kTaken;
  return !CheckOwner(owner, record, manifest).ok() && CheckOwner(taker, record, manifest).ok();
}

uint32_t OtherWorkers(const Owner& owner, const pb::Manifest& manifest) {
  return manifest.workers() == owner.workers ? 0 : manifest.workers();
}

std::optional<uint32_t> ShardsOfOtherLayout(const Owner& owner, const pb::Manifest& manifest) {
  if (!HasOtherLayout(manifest, ManifestOf(owner))) return std::nullopt;
  return manifest.shards();
}

}  // namespace tern::checkpoint
