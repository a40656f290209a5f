#include "common/checkpoint/store.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/hash.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/checkpoint/names.h"

namespace tern::checkpoint {

namespace {

constexpr uint32_t kFormatVersion = 1;
constexpr uint64_t kMaxManifestBytes = 64 << 10;
constexpr uint64_t kMaxRecordBytes = 16 << 20;

std::string RecordPath(const std::string& folder) { return folder + "/run.json"; }

std::string ChecksumOf(pb::Manifest manifest) {
  manifest.clear_checksum();
  return Hex(Digest(std::string_view(manifest.SerializeAsString())));
}

// ManifestOf(owner), with the format's version.
pb::Manifest ExpectedManifest(const Owner& owner) {
  pb::Manifest manifest = ManifestOf(owner);
  manifest.set_format(kFormatVersion);
  return manifest;
}

// The steps of the manifests in the folder, ascending.
std::vector<uint64_t> StepsIn(const std::string& folder, const Storage& storage) {
  std::vector<std::string> names;
  (void)storage.List(folder, &names);  // Open() reports a folder that cannot be read.
  std::vector<uint64_t> steps;
  for (const std::string& name : names) {
    if (const auto step = StepOf(name, kManifestSuffix)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string ToJson(const pb::Manifest& manifest) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  // Cannot fail, because this program made the message.
  (void)google::protobuf::util::MessageToJsonString(manifest, &json, options);
  return json;
}

}  // namespace

Store::Store(Owner owner, NumKept num_kept, Storage& storage)
    : owner_(std::move(owner)), num_kept_(num_kept), storage_(storage) {}

std::string Store::PathOf(uint64_t step, const char* suffix) const {
  return Cat(owner_.folder, "/", kNamePrefix, step, suffix);
}

Result<pb::Manifest> Store::ReadManifest(uint64_t step) const {
  const Result<std::string> json = storage_.Read(PathOf(step, kManifestSuffix), kMaxManifestBytes);
  if (!json.ok()) return json.status();
  pb::Manifest manifest;
  if (!google::protobuf::util::JsonStringToMessage(*json, &manifest).ok())
    return Status(Code::kBadData, "its manifest does not parse");
  if (manifest.format() != kFormatVersion)
    return MismatchError("format", Cat(manifest.format()), Cat(kFormatVersion));
  if (manifest.checksum() != ChecksumOf(manifest))
    return MismatchError("manifest's checksum", manifest.checksum(), ChecksumOf(manifest));
  if (manifest.step() != step) return MismatchError("step", Cat(manifest.step()), Cat(step));
  if (!ParseHex(manifest.run()).has_value())
    return MismatchError("run", manifest.run(), "16 hexadecimal digits");
  return manifest;
}

Result<std::string> Store::ReadState(const pb::Manifest& manifest) const {
  const std::string path = PathOf(manifest.step(), kStateSuffix);
  Result<std::string> bytes = storage_.Read(path, manifest.bytes());
  if (!bytes.ok()) return bytes;
  if (bytes->size() != manifest.bytes())
    return MismatchError("size in bytes", Cat(bytes->size()), Cat(manifest.bytes()));
  const std::string digest = Hex(Digest(std::string_view(*bytes)));
  if (digest != manifest.digest()) return MismatchError("digest", digest, manifest.digest());
  TERN_RETURN_IF_ERROR(CheckTag(owner_.tag_of, manifest, *bytes));
  return bytes;
}

void Store::ReadRecord() {
  own_recorded_run_ = 0;
  record_ = {};
  const Result<std::string> json = storage_.Read(RecordPath(owner_.folder), kMaxRecordBytes);
  pb::Manifest record;
  if (!json.ok() || !google::protobuf::util::JsonStringToMessage(*json, &record).ok()) return;
  if (record.format() != kFormatVersion || record.checksum() != ChecksumOf(record)) return;
  if (!CheckTag(owner_.tag_of, record, "").ok()) return;
  record_.run = ParseHex(record.run()).value_or(0);
  record_.job_text = record.job_text();
  const bool is_own_job = record.job() == Hex(owner_.job_digest);
  if (is_own_job || (owner_.is_same_job && owner_.is_same_job(record_.job_text))) {
    record_.same_jobs.insert(record.earlier_jobs().begin(), record.earlier_jobs().end());
    record_.same_jobs.insert(record.job());
  }
  if (CheckOwner(owner_, record_, record).ok()) own_recorded_run_ = record_.run;
}

Status Store::WriteRecord(uint64_t run) {
  if (const std::error_code error = storage_.CreateFolders(owner_.folder)) {
    return Status(Code::kCannotWrite,
                  Cat("cannot create the folder ", owner_.folder, ": ", error.message()));
  }
  pb::Manifest record = ExpectedManifest(owner_);
  if (run != record_.run) record_.same_jobs.clear();
  for (const std::string& job : record_.same_jobs) {
    if (job != record.job()) record.add_earlier_jobs(job);
  }
  record.set_run(Hex(run));
  record.set_job_text(owner_.job_text);
  SetTag(owner_.tag_of, "", &record);
  record.set_checksum(ChecksumOf(record));
  TERN_RETURN_IF_ERROR(WriteFileAtomically(RecordPath(owner_.folder), ToJson(record), storage_));
  own_recorded_run_ = record_.run = run;
  record_.job_text = owner_.job_text;
  record_.same_jobs.insert(record.job());
  return Ok();
}

Status Store::MakeFolder(uint64_t run) {
  const bool has_record = storage_.Exists(RecordPath(owner_.folder));
  if (has_record && own_recorded_run_ == run) return Ok();
  std::vector<uint64_t> removed_steps;
  for (const Point& point : points_) {
    if (!has_record && !storage_.Exists(PathOf(point.step, kManifestSuffix)))
      removed_steps.push_back(point.step);
  }
  for (const uint64_t step : removed_steps) Remove(step);
  LOG_IF(WARNING, own_recorded_run_ == run)
      << owner_.folder
      << " is gone: somebody has removed it, or its disk is away. It is made again, "
      << "without the " << removed_steps.size() << " checkpoints that were in it";
  return WriteRecord(run);
}

std::string Store::JobTextOf(std::optional<uint64_t> run) const {
  const bool is_meant = !run.has_value() || (*run != 0 && *run == record_.run);
  return is_meant ? record_.job_text : std::string();
}

void Store::OpenCheckpoint(uint64_t step) {
  const auto refuse = [&](const Status& why) -> RefusedCheckpoint& {
    return refused_checkpoints_.emplace_back(
        RefusedCheckpoint{step, false, 0, Kind::kOfAll, why.message()});
  };
  const Result<pb::Manifest> manifest = ReadManifest(step);
  if (!manifest.ok()) {
    refuse(manifest.status());
    return;
  }
  const uint64_t run = *ParseHex(manifest->run());
  const Kind kind = manifest->shard_only() ? Kind::kShard : Kind::kOfAll;
  if (const Status owner_check = CheckOwner(owner_, record_, *manifest); !owner_check.ok()) {
    RefusedCheckpoint& refused = refuse(owner_check);
    refused.kind = kind;
    refused.is_left_over = IsLeftOver(owner_, record_, *manifest);
    refused.is_foreign = !refused.is_left_over;
    if (refused.is_foreign) refused.run = run;
    return;
  }
  if (const Result<std::string> state = ReadState(*manifest); !state.ok()) {
    refuse(state.status()).kind = kind;
    return;
  }
  points_.push_back({run, step, manifest->round(), ParseHex(manifest->weights()).value_or(0),
                     OtherWorkers(owner_, *manifest), ShardsOfOtherLayout(owner_, *manifest)});
  if (kind == Kind::kShard) shard_only_.insert(step);
}

std::vector<std::string> Store::Open() {
  std::vector<std::string> names;
  const std::error_code error = storage_.List(owner_.folder, &names);
  for (const std::string& name : names) {
    const std::optional<uint64_t> step = StepOf(name, kStateSuffix);
    const bool is_incomplete = step.has_value() && !storage_.Exists(PathOf(*step, kManifestSuffix));
    if (is_incomplete || IsNameOfStore(NameWithoutTemporarySuffix(name)))
      storage_.Remove(Cat(owner_.folder, "/", name));
  }
  // A process may have died after it had renamed a checkpoint, before it had flushed the folder.
  // This daemon will offer the checkpoint, so a loss of power must not take it away any more.
  if (!names.empty()) storage_.FlushFolder(owner_.folder);
  points_.clear();
  shard_only_.clear();
  refused_checkpoints_.clear();
  if (error)
    refused_checkpoints_.push_back(
        {0, false, 0, Kind::kOfAll, "the folder cannot be read: " + error.message()});
  ReadRecord();
  for (const uint64_t step : StepsIn(owner_.folder, storage_)) OpenCheckpoint(step);
  std::vector<std::string> warnings;
  for (const RefusedCheckpoint& refused_checkpoint : refused_checkpoints_) {
    warnings.push_back(refused_checkpoint.step == 0
                           ? Cat(owner_.folder, ": ", refused_checkpoint.reason)
                           : Cat("the checkpoint ", PathOf(refused_checkpoint.step, kStateSuffix),
                                 " is not used: ", refused_checkpoint.reason));
  }
  return warnings;
}

Status Store::MoveCheckpoints(const std::string& folder, const std::vector<uint64_t>& steps) const {
  std::error_code error;
  if (steps.size() == StepsIn(owner_.folder, storage_).size()) {
    error = storage_.Rename(owner_.folder, folder);
  } else {
    error = storage_.CreateFolders(folder);
    // Moves one checkpoint after the other, so that a crash leaves at most one divided between the
    // folders. The manifest is moved last, because Open removes a state without a manifest as
    // incomplete.
    for (const uint64_t step : steps) {
      for (const char* suffix : {kStateSuffix, kManifestSuffix}) {
        if (error) break;
        error = storage_.Rename(PathOf(step, suffix), Cat(folder, "/", kNamePrefix, step, suffix));
        if (suffix == kStateSuffix && error == std::errc::no_such_file_or_directory) error.clear();
      }
      storage_.FlushFolder(folder);
      storage_.FlushFolder(owner_.folder);
    }
  }
  storage_.FlushFolder(std::filesystem::path(folder).parent_path().string());
  if (!error) return Ok();
  return Status(Code::kCannotWrite,
                Cat("cannot move the checkpoints in ", owner_.folder,
                    " that are not of this run to ", folder, ": ", error.message(),
                    "; they are still there: move them by hand, or give another output_dir"));
}

Result<std::string> Store::MoveAway(const std::vector<uint64_t>& steps,
                                    std::chrono::system_clock::time_point now) {
  if (steps.empty()) return std::string();
  uint64_t bytes = 0;
  for (const uint64_t step : steps) {
    for (const char* suffix : {kStateSuffix, kManifestSuffix})
      bytes += storage_.SizeOf(PathOf(step, suffix));
  }
  const std::string new_folder = UnusedFolderName(owner_.folder, now, storage_);
  const bool moves_all = steps.size() == StepsIn(owner_.folder, storage_).size();
  TERN_RETURN_IF_ERROR(MoveCheckpoints(new_folder, steps));
  if (moves_all) own_recorded_run_ = record_.run = 0;  // run.json was moved too.
  for (const uint64_t step : steps) {
    std::erase_if(points_, [step](const Point& point) { return point.step == step; });
    shard_only_.erase(step);
  }
  return Cat("the checkpoints that ", owner_.folder, " had before are kept in ", new_folder, ": ",
             steps.size(), ", the newest of step ", steps.back(), ", ", HumanBytes(bytes));
}

void Store::RecordRun(uint64_t run) {
  if (num_kept_.num_of_all == 0 && num_kept_.num_of_shard == 0) return;
  if (record_.run != run || own_recorded_run_ != run || record_.job_text != owner_.job_text)
    (void)WriteRecord(run);
}

void Store::ForgetRun() {
  for (const Point& point : std::vector<Point>(points_)) Remove(point.step);
  storage_.Remove(RecordPath(owner_.folder));
  own_recorded_run_ = 0;
  record_ = {};
}

Result<std::string> Store::Begin(uint64_t run, bool starts_anew,
                                 std::chrono::system_clock::time_point now) {
  std::erase_if(points_, [&](const Point& point) { return starts_anew || point.run != run; });
  refused_checkpoints_.clear();
  std::vector<uint64_t> steps = StepsIn(owner_.folder, storage_);
  for (const Point& point : points_) std::erase(steps, point.step);
  const Result<std::string> sentence = MoveAway(steps, now);
  if (sentence.ok()) RecordRun(run);
  return sentence;
}

Status Store::WriteManifest(pb::Manifest manifest, std::string_view state) const {
  SetTag(owner_.tag_of, state, &manifest);
  manifest.set_checksum(ChecksumOf(manifest));
  return WriteFileAtomically(PathOf(manifest.step(), kManifestSuffix), ToJson(manifest), storage_);
}

Status Store::Write(const Point& point, Kind kind, const std::vector<tensors::TensorView>& tensors,
                    const tensors::Metadata& metadata) {
  TERN_RETURN_IF_ERROR(MakeFolder(point.run));
  if (std::find(points_.begin(), points_.end(), point) != points_.end()) {
    if (kind == KindOf(point) || kind == Kind::kShard) return Ok();
    Result<pb::Manifest> manifest = ReadManifest(point.step);
    if (!manifest.ok()) return manifest.status();
    const Result<std::string> state = owner_.tag_of ? ReadState(*manifest) : std::string();
    if (!state.ok()) return state.status();
    manifest->clear_shard_only();
    TERN_RETURN_IF_ERROR(WriteManifest(*manifest, *state));
    shard_only_.erase(point.step);
    RemoveOldest(kind);
    return Ok();
  }
  const std::string bytes = tensors::EncodeSafetensors(tensors, metadata);
  pb::Manifest manifest = ExpectedManifest(owner_);
  manifest.set_run(Hex(point.run));
  manifest.set_step(point.step);
  manifest.set_round(point.round);
  manifest.set_bytes(bytes.size());
  manifest.set_digest(Hex(Digest(std::string_view(bytes))));
  if (kind == Kind::kShard) manifest.set_shard_only(true);
  if (point.weights_hash != 0) manifest.set_weights(Hex(point.weights_hash));
  Remove(point.step);  // An incomplete checkpoint of this step may exist.
  TERN_RETURN_IF_ERROR(WriteFileAtomically(PathOf(point.step, kStateSuffix), bytes, storage_));
  if (const Status write_status = WriteManifest(manifest, bytes); !write_status.ok()) {
    Remove(point.step);
    return write_status;
  }
  points_.push_back(point);
  if (kind == Kind::kShard) shard_only_.insert(point.step);
  std::sort(points_.begin(), points_.end(),
            [](const Point& a, const Point& b) { return a.step < b.step; });
  RemoveOldest(kind);
  return Ok();
}

void Store::RemoveOldest(Kind kind) {
  std::vector<uint64_t> steps;
  for (const Point& point : points_) {
    if (KindOf(point) == kind) steps.push_back(point.step);
  }
  const size_t num_to_keep = kind == Kind::kShard ? num_kept_.num_of_shard : num_kept_.num_of_all;
  for (size_t i = 0; i + num_to_keep < steps.size(); ++i) Remove(steps[i]);
}

Result<tensors::TensorFile> Store::Read(const Point& point) const {
  const std::string path = PathOf(point.step, kStateSuffix);
  const Result<pb::Manifest> manifest = ReadManifest(point.step);
  if (!manifest.ok()) return manifest.status().Within(path);
  TERN_RETURN_IF_ERROR(CheckOwner(owner_, record_, *manifest).Within(path));
  if (manifest->run() != Hex(point.run))
    return MismatchError("run", manifest->run(), Hex(point.run)).Within(path);
  if (manifest->round() != point.round)
    return MismatchError("round", Cat(manifest->round()), Cat(point.round)).Within(path);
  const Result<std::string> bytes = ReadState(*manifest);
  if (!bytes.ok()) return bytes.status().Within(path);
  Result<tensors::TensorFile> file = tensors::DecodeSafetensors(*bytes);
  if (!file.ok()) return file.status().Within(path);
  return file;
}

void Store::Remove(uint64_t step) {
  storage_.Remove(PathOf(step, kManifestSuffix));
  storage_.Remove(PathOf(step, kStateSuffix));
  std::erase_if(points_, [step](const Point& point) { return point.step == step; });
  shard_only_.erase(step);
}

Result<std::string> Store::RemoveAfter(const Point& point,
                                       std::chrono::system_clock::time_point now) {
  std::vector<uint64_t> later_steps;
  size_t num_of_all = 0;
  for (const Point& candidate : points_) {
    if (candidate.run != point.run || candidate.step <= point.step) continue;
    later_steps.push_back(candidate.step);
    num_of_all += KindOf(candidate) == Kind::kOfAll;
  }
  if (num_of_all > 1) {
    const Result<std::string> sentence = MoveAway(later_steps, now);
    RecordRun(point.run);
    return sentence;
  }
  for (const uint64_t step : later_steps) Remove(step);
  // Without the flush, the removed checkpoints could exist again after a loss of power, together
  // with the checkpoints that the run writes after this call.
  if (!later_steps.empty()) storage_.FlushFolder(owner_.folder);
  return std::string();
}

}  // namespace tern::checkpoint
