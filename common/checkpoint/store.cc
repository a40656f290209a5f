#include "common/checkpoint/store.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/hash.h"
#include "common/base/text.h"

namespace tern::checkpoint {

namespace {

namespace fs = std::filesystem;

constexpr uint32_t kFormat = 1;
constexpr uint64_t kMostManifestBytes = 64 << 10;
constexpr std::string_view kBegin = "step.";
constexpr const char* kState = ".safetensors";
constexpr const char* kManifest = ".json";

std::string ChecksumOf(pb::Manifest manifest) {
  manifest.clear_checksum();
  return Hex(Digest(std::string_view(manifest.SerializeAsString())));
}

std::string ToJson(const pb::Manifest& manifest) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  std::string json;
  (void)google::protobuf::util::MessageToJsonString(manifest, &json, options);  // of our own
  return json;
}

std::optional<uint64_t> ParseHex(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The step that a manifest's name says; nothing of another file.
std::optional<uint64_t> StepOf(std::string_view name) {
  if (!name.starts_with(kBegin) || !name.ends_with(kManifest)) return std::nullopt;
  name.remove_prefix(kBegin.size());
  name.remove_suffix(std::string_view(kManifest).size());
  uint64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return step;
}

Status Differs(const std::string& what, const std::string& seen, const std::string& expected) {
  return Status(Code::kBadData,
                Cat("its ", what, " is ", Printable(seen), ", expected ", expected));
}

// Whether it is of what `expected` says.
Status CheckOwner(const pb::Manifest& manifest, const pb::Manifest& expected) {
  if (manifest.owner() != expected.owner())
    return Differs("owner", manifest.owner(), expected.owner());
  if (manifest.model() != expected.model())
    return Differs("model digest", manifest.model(), expected.model());
  if (manifest.workers() != expected.workers())
    return Differs("number of workers", Cat(manifest.workers()), Cat(expected.workers()));
  if (manifest.job() != expected.job()) {
    return Status(Code::kBadData,
                  Cat("it is of a job with other settings (digest ", Printable(manifest.job()),
                      ", expected ", expected.job(),
                      "): only the length of a job, its servers, faults, evaluation, metrics and "
                      "checkpoints may change between a checkpoint and who goes on from it"));
  }
  if (manifest.plan() != expected.plan())
    return Differs("plan digest", manifest.plan(), expected.plan());
  return Ok();
}

}  // namespace

Store::Store(Owner owner, uint32_t keep)
    : owner_(std::move(owner)), keep_(std::max<uint32_t>(2, keep)) {}

std::string Store::PathOf(uint64_t step, const char* ending) const {
  return Cat(owner_.folder, "/", kBegin, step, ending);
}

pb::Manifest Store::Expected() const {
  pb::Manifest manifest;
  manifest.set_format(kFormat);
  manifest.set_job(Hex(owner_.job_digest));
  manifest.set_model(Hex(owner_.model_digest));
  manifest.set_plan(Hex(owner_.plan_digest));
  manifest.set_owner(owner_.name);
  manifest.set_workers(owner_.workers);
  return manifest;
}

std::vector<uint64_t> Store::StepsHere() const {
  std::vector<uint64_t> steps;
  std::error_code error;
  for (fs::directory_iterator at(owner_.folder, error), end; !error && at != end;
       at.increment(error)) {
    if (const auto step = StepOf(at->path().filename().string())) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

Result<pb::Manifest> Store::ReadManifest(uint64_t step) const {
  const Result<std::string> text = ReadWholeFile(PathOf(step, kManifest), kMostManifestBytes);
  if (!text.ok()) return text.status();
  pb::Manifest manifest;
  if (!google::protobuf::util::JsonStringToMessage(*text, &manifest).ok())
    return Status(Code::kBadData, "its manifest does not parse");
  if (manifest.format() != kFormat) return Differs("format", Cat(manifest.format()), Cat(kFormat));
  if (manifest.checksum() != ChecksumOf(manifest))
    return Differs("manifest's checksum", manifest.checksum(), ChecksumOf(manifest));
  if (manifest.step() != step) return Differs("step", Cat(manifest.step()), Cat(step));
  TERN_RETURN_IF_ERROR(CheckOwner(manifest, Expected()));
  if (!ParseHex(manifest.run()).has_value())
    return Differs("run", manifest.run(), "16 hexadecimal digits");
  return manifest;
}

Result<std::string> Store::ReadState(const pb::Manifest& manifest) const {
  const std::string path = PathOf(manifest.step(), kState);
  Result<std::string> bytes = ReadWholeFile(path, manifest.bytes());
  if (!bytes.ok()) return bytes;
  if (bytes->size() != manifest.bytes())
    return Differs("size in bytes", Cat(bytes->size()), Cat(manifest.bytes()));
  const std::string digest = Hex(Digest(std::string_view(*bytes)));
  if (digest != manifest.digest()) return Differs("digest", digest, manifest.digest());
  return bytes;
}

std::vector<std::string> Store::Open() {
  std::vector<std::string> sentences;
  std::error_code error;
  for (fs::directory_iterator at(owner_.folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    const std::string name = at->path().filename().string();
    const bool state = name.starts_with(kBegin) && name.ends_with(kState);
    if (IsLeftBehind(name) ||
        (state && !fs::exists(fs::path(at->path()).replace_extension(kManifest), ignored))) {
      fs::remove(at->path(), ignored);
    }
  }
  points_.clear();
  for (const uint64_t step : StepsHere()) {
    const auto refuse = [&](const Status& status) {
      sentences.push_back(
          Cat("the checkpoint ", PathOf(step, kState), " is not used: ", status.message()));
    };
    const Result<pb::Manifest> manifest = ReadManifest(step);
    if (!manifest.ok()) {
      refuse(manifest.status());
      continue;
    }
    if (const Result<std::string> state = ReadState(*manifest); !state.ok()) {
      refuse(state.status());
      continue;
    }
    points_.push_back({*ParseHex(manifest->run()), step, manifest->round()});
  }
  return sentences;
}

Status Store::Write(const Point& point, const std::vector<models::TensorView>& tensors,
                    const models::Metadata& metadata) {
  if (std::find(points_.begin(), points_.end(), point) != points_.end()) return Ok();
  std::error_code error;
  if (fs::create_directories(owner_.folder, error); error) {
    return Status(Code::kCannotWrite,
                  Cat("cannot create the folder ", owner_.folder, ": ", error.message()));
  }
  const std::string bytes = models::EncodeSafetensors(tensors, metadata);
  pb::Manifest manifest = Expected();
  manifest.set_run(Hex(point.run));
  manifest.set_step(point.step);
  manifest.set_round(point.round);
  manifest.set_bytes(bytes.size());
  manifest.set_digest(Hex(Digest(std::string_view(bytes))));
  manifest.set_checksum(ChecksumOf(manifest));
  Remove(point.step);  // one of another run, or that is not whole
  TERN_RETURN_IF_ERROR(WriteFileAtomically(PathOf(point.step, kState), bytes));
  TERN_RETURN_IF_ERROR(WriteFileAtomically(PathOf(point.step, kManifest), ToJson(manifest)));
  points_.push_back(point);
  std::sort(points_.begin(), points_.end(),
            [](const Point& a, const Point& b) { return a.step < b.step; });
  while (points_.size() > keep_) Remove(points_.front().step);
  return Ok();
}

Result<models::TensorFile> Store::Read(const Point& point) const {
  const std::string path = PathOf(point.step, kState);
  const Result<pb::Manifest> manifest = ReadManifest(point.step);
  if (!manifest.ok()) return manifest.status().Within(path);
  if (manifest->run() != Hex(point.run))
    return Differs("run", manifest->run(), Hex(point.run)).Within(path);
  if (manifest->round() != point.round)
    return Differs("round", Cat(manifest->round()), Cat(point.round)).Within(path);
  const Result<std::string> bytes = ReadState(*manifest);
  if (!bytes.ok()) return bytes.status().Within(path);
  Result<models::TensorFile> file = models::DecodeSafetensors(*bytes);
  if (!file.ok()) return file.status().Within(path);
  return file;
}

void Store::Remove(uint64_t step) {
  std::error_code ignored;
  fs::remove(PathOf(step, kManifest), ignored);
  fs::remove(PathOf(step, kState), ignored);
  std::erase_if(points_, [step](const Point& point) { return point.step == step; });
}

void Store::RemoveAfter(const Point& point) {
  for (const uint64_t step : StepsHere()) {
    if (step > point.step) Remove(step);
  }
}

bool Store::SetAside() {
  points_.clear();
  std::error_code error;
  if (!fs::exists(owner_.folder, error) || fs::is_empty(owner_.folder, error)) return false;
  const std::string before = owner_.folder + ".before";
  fs::remove_all(before, error);
  fs::rename(owner_.folder, before, error);
  if (error) fs::remove_all(owner_.folder, error);
  return true;
}

}  // namespace tern::checkpoint
