#include "client/guest/program_checkpoints.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/checkpoint/saved.h"

namespace tern::client {
namespace {

// The program's bytes as the values of a tensor, the last one filled up with zeros, and how many
// they are. Nobody computes with these values.
constexpr const char *kStateTensor = "program", *kNumStateBytes = "program.bytes";

std::vector<float> ValuesOf(const Bytes& bytes) {
  std::vector<float> values((bytes.size() + sizeof(float) - 1) / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

Result<Bytes> StateIn(const tensors::TensorFile& file) {
  uint64_t num_bytes = 0;
  TERN_RETURN_IF_ERROR(checkpoint::RestoreState(file, {{}, {{kNumStateBytes, &num_bytes}}}));
  const auto tensor = std::find_if(file.tensors.begin(), file.tensors.end(),
                                   [](const auto& one) { return one.name == kStateTensor; });
  if (tensor == file.tensors.end() || num_bytes > tensor->values.size() * sizeof(float))
    return Status(Code::kBadData, Cat("it has no ", kStateTensor, " of ", num_bytes, " bytes"));
  std::string bytes(num_bytes, '\0');
  if (num_bytes > 0) std::memcpy(bytes.data(), tensor->values.data(), num_bytes);
  return Bytes::Own(std::move(bytes));
}

}  // namespace

Status ProgramCheckpoints::Write(uint64_t step, uint64_t round,
                                 std::vector<tensors::TensorView> tensors, const SavedState& extra,
                                 uint64_t weights_hash) {
  progress_.is_waiting_for_program = true;
  const std::optional<Bytes> state = tasks_.Save();
  progress_.is_waiting_for_program = false;
  if (!state.has_value()) {
    Status status(Code::kPeerLost, "the program has left the job");
    LOG(ERROR) << "no checkpoint of step " << step << ": " << status.message();
    return status;
  }
  std::vector<float> values = ValuesOf(*state);
  uint64_t num_bytes = state->size();
  SavedState with_state = extra;
  with_state.arrays.push_back({kStateTensor, values});
  with_state.numbers.push_back({kNumStateBytes, &num_bytes});
  return disk_.Write(step, round, std::move(tensors), with_state, weights_hash);
}

Result<tensors::TensorFile> ProgramCheckpoints::Read(const pb::Checkpoint& checkpoint) const {
  Result<tensors::TensorFile> file = disk_.Read(checkpoint);
  if (!file.ok()) return file;
  const Result<Bytes> state = StateIn(*file);
  if (!state.ok()) return state.status().Within(Cat("the checkpoint of step ", checkpoint.step()));
  on_state_(*state);
  return file;
}

}  // namespace tern::client
