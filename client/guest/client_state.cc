#include "client/guest/client_state.h"

#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "common/base/text.h"
#include "common/checkpoint/saved.h"
#include "common/config/job.h"
#include "common/config/key_digests.h"

namespace tern::client {
namespace {

// The names of numbers in the metadata.
constexpr const char *kRun = "tern.run", *kStep = "tern.step", *kRound = "tern.round";

// The number of that name, at most `max`.
Result<uint64_t> NumberIn(const tensors::Metadata& metadata, const char* name, uint64_t max) {
  const auto entry = metadata.find(name);
  if (entry == metadata.end())
    return Status(Code::kBadData, Cat("the saved state of Tern: saw no ", name,
                                      "; give what was saved in this job, whole"));
  const std::string& text = entry->second;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number <= max) return number;
  return Status(Code::kBadData, Cat("the saved state of Tern: saw ", Printable(text), " as ", name,
                                    ", expected a number; give what was saved in this job"));
}

}  // namespace

ClientState::ClientState(const setup::Setup& setup, uint32_t rank, Events& wake)
    : setup_(setup), rank_(rank), wake_(wake) {}

Result<std::unique_ptr<ClientState>> ClientState::Make(const setup::Setup& setup, uint32_t rank,
                                                       std::string_view saved,
                                                       uint64_t weights_digest, Events& wake) {
  std::unique_ptr<ClientState> state(new ClientState(setup, rank, wake));
  if (saved.empty()) return state;
  Result<tensors::TensorFile> file = tensors::DecodeSafetensors(saved);
  if (!file.ok()) return file.status().Within("the saved state of Tern");
  // A run's number is random.
  const auto run = NumberIn(file->metadata, kRun, std::numeric_limits<uint64_t>::max());
  const auto step = NumberIn(file->metadata, kStep, setup::kUnknownSteps - 1);
  const auto round = NumberIn(file->metadata, kRound, setup::kUnknownSteps - 1);
  for (const auto* number : {&run, &step, &round}) {
    if (!number->ok()) return number->status();
  }
  for (const auto& [name, value] : state->OwnerOfState()) {
    if (file->metadata[name] == value) continue;
    return Status(Code::kMismatch,
                  Cat("the saved state of Tern belongs to another job: saw ",
                      Printable(file->metadata[name], 80), " as ", name, "; this worker has ",
                      value, "; give none to begin without earlier gradients"));
  }
  state->given_point_.set_run(*run);
  state->given_point_.set_step(*step);
  state->given_point_.set_round(*round);
  // Shard 0 refuses to begin from weights that differ.
  if (weights_digest != 0) state->given_point_.set_weights_hash(weights_digest);
  state->given_ = std::move(*file);
  return state;
}

tensors::Metadata ClientState::OwnerOfState() const {
  return {{"job.state", Hex(config::StateDigest(setup_.job))},
          {"tensors", Hex(setup_.hello.model_digest())},
          {"plan", Hex(setup_.plan.digest)},
          {"rank", std::to_string(rank_)},
          {"workers.count", std::to_string(setup_.plan.workers)}};
}

Result<std::optional<Bytes>> ClientState::Save(Time patience) {
  bool is_news = false;
  {
    const MutexLock lock(mutex_);
    is_news = !std::exchange(is_wanted_, true);
  }
  if (is_news) wake_.Push(SaveWanted{});
  const std::chrono::steady_clock::time_point until{Now() + patience};
  const MutexLock lock(mutex_);
  while (!made_.has_value() && !end_status_.has_value()) {
    if (!changed_.WaitUntil(mutex_, until)) return std::optional<Bytes>();
  }
  if (end_status_.has_value()) {
    return end_status_->ok() ? Status(Code::kUsage, "saved the state of a job that has ended")
                             : *end_status_;
  }
  is_wanted_ = false;
  return std::exchange(made_, std::nullopt);
}

void ClientState::End(const Status& status) {
  {
    const MutexLock lock(mutex_);
    if (end_status_.has_value()) return;
    end_status_ = status;
  }
  changed_.NotifyAll();
}

std::vector<pb::Checkpoint> ClientState::Offers() const {
  if (has_begun_ || !given_.has_value()) return {};
  return {given_point_};
}

Status ClientState::Begin(uint64_t run, uint64_t, bool) {
  run_ = run;
  has_begun_ = true;
  given_.reset();
  return Ok();
}

Status ClientState::Write(uint64_t step, uint64_t round, std::vector<tensors::TensorView> tensors,
                          const SavedState& extra, uint64_t) {
  tensors::Metadata metadata = OwnerOfState();
  metadata[kRun] = std::to_string(run_);
  metadata[kStep] = std::to_string(step);
  metadata[kRound] = std::to_string(round);
  checkpoint::AddSavedState(extra, &tensors, &metadata);
  {
    const MutexLock lock(mutex_);
    made_ = Bytes::Own(tensors::EncodeSafetensors(tensors, metadata));
  }
  changed_.NotifyAll();
  return Ok();
}

Result<tensors::TensorFile> ClientState::Read(const pb::Checkpoint& checkpoint) const {
  if (given_.has_value() && checkpoint.step() == given_point_.step() &&
      checkpoint.run() == given_point_.run())
    return *given_;
  return Status(Code::kInternal,
                Cat("this program has no state of step ", checkpoint.step(), " of Tern's"));
}

}  // namespace tern::client
