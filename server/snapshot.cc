#include "server/snapshot.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/hash.h"
#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/protocol/members/roll_back.h"
#include "server/snapshot_files.h"

namespace tern::server {

namespace {

std::string CellName(const protocol::Cell& cell) { return Cat(cell.bucket, ".", cell.chunk, "."); }

tensors::Metadata MetadataOf(const SnapshotOwner& owner, uint64_t step) {
  return {{"job", Hex(owner.job_digest)}, {"run", Hex(owner.run)}, {"step", std::to_string(step)}};
}

// Everything checked, and then everything filled in.
struct Filling {
  struct Array {
    std::span<float> to;
    const std::vector<float>* from;
  };
  struct Number {
    uint64_t* to;
    uint64_t value;
  };
  std::vector<Array> arrays;
  std::vector<Number> numbers;
};

Status Match(const SavedState& state, const std::string& cell, const tensors::TensorFile& file,
             Filling* filling) {
  for (const SavedState::Array& array : state.arrays) {
    const auto found = std::find_if(
        file.tensors.begin(), file.tensors.end(),
        [&](const tensors::Tensor& tensor) { return tensor.name == cell + array.name; });
    if (found == file.tensors.end() || found->values.size() != array.values.size())
      return Status(Code::kBadData,
                    Cat("has no ", cell, array.name, " of ", array.values.size(), " values"));
    filling->arrays.push_back({array.values, &found->values});
  }
  for (const SavedState::Number& number : state.numbers) {
    const auto found = file.metadata.find(cell + number.name);
    const std::optional<uint64_t> value =
        found == file.metadata.end() ? std::nullopt : ParseNumber(found->second);
    if (!value.has_value()) return Status(Code::kBadData, Cat("has no number ", cell, number.name));
    filling->numbers.push_back({number.value, *value});
  }
  return Ok();
}

}  // namespace

Result<tensors::TensorFile> ReadSnapshot(const SnapshotOwner& owner, uint64_t step) {
  const std::string path = SnapshotPath(owner, step);
  Result<tensors::TensorFile> file = tensors::ReadSafetensors(path);
  if (!file.ok()) return file;
  for (const auto& [key, expected] : MetadataOf(owner, step)) {
    const auto found = file->metadata.find(key);
    const std::string seen = found == file->metadata.end() ? "nothing" : found->second;
    if (seen != expected) {
      return Status(Code::kBadData, Cat(path, " is not of this run: its ", key, " is ",
                                        Printable(seen), ", expected ", expected));
    }
  }
  return file;
}

std::vector<uint64_t> ListSnapshots(const SnapshotOwner& owner) {
  std::vector<uint64_t> steps;
  if (owner.run == 0) return steps;
  for (uint64_t step : StepsOfFiles(owner)) {
    const Result<tensors::TensorFile> file = ReadSnapshot(owner, step);
    if (file.ok()) {
      steps.push_back(step);
    } else {
      LOG(WARNING) << "a snapshot is not used: " << file.status().message();
    }
  }
  return steps;
}

std::vector<uint64_t> CommonSnapshots(const std::vector<SnapshotOwner>& owners) {
  std::vector<uint64_t> common;
  for (size_t i = 0; i < owners.size(); ++i) {
    const std::vector<uint64_t> steps = ListSnapshots(owners[i]);
    if (i == 0) {
      common = steps;
      continue;
    }
    std::erase_if(common, [&](uint64_t step) {
      return !std::binary_search(steps.begin(), steps.end(), step);
    });
  }
  return common;
}

void RemoveSnapshotsOfOthers(const SnapshotOwner& owner) {
  RemoveHalfWritten(owner);
  for (uint64_t step : StepsOfFiles(owner)) {
    if (!ReadSnapshot(owner, step).ok()) RemoveSnapshot(owner, step);
  }
}

void LaneSnapshots::AddCell(const protocol::Cell& cell, std::function<void(SavedState*)> state) {
  cells_[cell] = std::move(state);
}

void LaneSnapshots::OnClosed(const protocol::Cell& cell, uint64_t round) {
  if (!wanted()) return;
  if (round > newest_) writer_.Wait();
  if (round % every_ != 0) return;
  CopyCell(cell, round);
  Open& open = open_[round];
  if (open.cells < cells_.size()) return;
  newest_ = round;
  writer_.Submit(std::move(open.copy));
  open_.erase(open_.begin(), open_.upper_bound(round));
}

void LaneSnapshots::Take(uint64_t step) {
  writer_.Wait();
  for (const auto& [cell, state] : cells_) CopyCell(cell, step);
  newest_ = step;
  writer_.Submit(std::move(open_[step].copy));
  open_.clear();
}

void LaneSnapshots::CopyCell(const protocol::Cell& cell, uint64_t step) {
  Open& open = open_[step];
  if (open.cells++ == 0) {
    open.copy.owner = owner_;
    open.copy.step = step;
    open.copy.keep = protocol::SnapshotsToKeep(every_, window_);
    open.copy.metadata = MetadataOf(owner_, step);
  }
  SavedState state;
  cells_.at(cell)(&state);
  const std::string name = CellName(cell);
  for (const SavedState::Array& array : state.arrays) {
    open.copy.tensors.push_back(
        {name + array.name, {array.values.size()}, {array.values.begin(), array.values.end()}});
  }
  for (const SavedState::Number& number : state.numbers)
    open.copy.metadata[name + number.name] = std::to_string(*number.value);
}

void LaneSnapshots::RemoveAll() {
  writer_.Wait();
  for (uint64_t step : StepsOfFiles(owner_)) RemoveSnapshot(owner_, step);
  newest_ = 0;
  open_.clear();
}

Status LaneSnapshots::Load(uint64_t step) {
  writer_.Wait();
  const Result<tensors::TensorFile> file = ReadSnapshot(owner_, step);
  if (!file.ok()) return file.status();
  Filling filling;
  for (const auto& [cell, state] : cells_) {
    SavedState saved;
    state(&saved);
    Status matched = Match(saved, CellName(cell), *file, &filling);
    if (!matched.ok()) return matched.Within(SnapshotPath(owner_, step));
  }
  for (const Filling::Array& array : filling.arrays)
    std::copy(array.from->begin(), array.from->end(), array.to.begin());
  for (const Filling::Number& number : filling.numbers) *number.to = number.value;
  for (uint64_t other : StepsOfFiles(owner_)) {
    if (other > step) RemoveSnapshot(owner_, other);
  }
  newest_ = step;
  open_.clear();
  return Ok();
}

}  // namespace tern::server
