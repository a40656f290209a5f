#include "server/snapshot_files.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/base/threads.h"

namespace tern::server {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".snapshot";

std::string Prefix(const SnapshotOwner& owner) {
  return Cat("server.", owner.shard, ".lane.", owner.lane, ".");
}

std::vector<std::string> NamesOf(const SnapshotOwner& owner) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(owner.dir, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (name.starts_with(Prefix(owner))) names.push_back(std::move(name));
  }
  return names;
}

void Remove(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) LOG(WARNING) << "cannot remove " << path.string() << ": " << error.message();
}

Status Write(const SnapshotWriter::Copy& copy) {
  std::error_code error;
  fs::create_directories(copy.owner.dir, error);
  std::vector<tensors::TensorView> views;
  for (const tensors::Tensor& tensor : copy.tensors)
    views.push_back({tensor.name, tensor.shape, tensor.values});
  TERN_RETURN_IF_ERROR(
      tensors::WriteSafetensors(SnapshotPath(copy.owner, copy.step), views, copy.metadata));
  std::vector<uint64_t> steps = StepsOfFiles(copy.owner);
  for (size_t i = 0; i + copy.keep < steps.size(); ++i) RemoveSnapshot(copy.owner, steps[i]);
  return Ok();
}

}  // namespace

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string SnapshotPath(const SnapshotOwner& owner, uint64_t step) {
  return (fs::path(owner.dir) / Cat(Prefix(owner), step, kEnding)).string();
}

std::vector<uint64_t> StepsOfFiles(const SnapshotOwner& owner) {
  std::vector<uint64_t> steps;
  for (const std::string& name : NamesOf(owner)) {
    std::string_view number = std::string_view(name).substr(Prefix(owner).size());
    if (!number.ends_with(kEnding)) continue;
    number.remove_suffix(kEnding.size());
    if (const std::optional<uint64_t> step = ParseNumber(number)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void RemoveSnapshot(const SnapshotOwner& owner, uint64_t step) {
  Remove(SnapshotPath(owner, step));
}

void RemoveHalfWritten(const SnapshotOwner& owner) {
  for (const std::string& name : NamesOf(owner)) {
    if (name.find(std::string(kEnding) + ".tmp.") != std::string::npos)
      Remove(fs::path(owner.dir) / name);
  }
}

struct SnapshotWriter::Shared {
  std::mutex mutex;  // guards all below
  std::condition_variable changed;
  std::optional<Copy> copy;  // to be written, or being written
  bool quit = false;
  Thread thread;

  void Run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return copy.has_value() || quit; });
      if (!copy.has_value()) return;
      lock.unlock();
      const Status written = Write(*copy);  // nobody else changes it while it is there
      if (!written.ok())
        LOG(ERROR) << "no snapshot of step " << copy->step << ": " << written.message();
      lock.lock();
      copy.reset();
      changed.notify_all();
    }
  }
};

SnapshotWriter::SnapshotWriter() : shared_(std::make_unique<Shared>()) {
  shared_->thread = Thread("snapshots", [raw = shared_.get()] { raw->Run(); });
}

SnapshotWriter::~SnapshotWriter() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->quit = true;
  }
  shared_->changed.notify_all();
  shared_->thread.Join();
}

void SnapshotWriter::Submit(Copy copy) {
  Wait();
  const std::lock_guard lock(shared_->mutex);
  shared_->copy = std::move(copy);
  shared_->changed.notify_all();
}

void SnapshotWriter::Wait() {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [this] { return !shared_->copy.has_value(); });
}

}  // namespace tern::server
