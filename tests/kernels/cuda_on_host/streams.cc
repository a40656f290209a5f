#include "tests/kernels/cuda_on_host/streams.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace cuda_on_host {
namespace {

// How often the device goes on with the stream that it has just run: 7 times in 8. So one stream is
// often far ahead of the others.
constexpr uint64_t kStay = 8;

uint64_t SeedOfEnvironment() {
  const char* seed = std::getenv("TERN_CUDA_ON_HOST_SEED");
  return seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
}

// FNV-1a over words of 8 bytes.
uint64_t ChecksumOf(std::span<const std::byte> bytes) {
  uint64_t sum = 0xCBF29CE484222325;
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
    sum = (sum ^ word) * 0x100000001B3;
  }
  return sum;
}

bool Overlap(std::span<const std::byte> range, const void* begin, size_t bytes) {
  const auto* other = static_cast<const std::byte*>(begin);
  return range.data() < other + bytes && other < range.data() + range.size();
}

}  // namespace

void Fail(const std::string& fault) {
  std::fprintf(stderr, "cuda_on_host: %s\n", fault.c_str());
  std::abort();
}

Device& Device::Get() {
  static auto* device = new Device;
  return *device;
}

Device::Device() : seed_(SeedOfEnvironment()), random_(seed_), legacy_(NewStream()) {}

void Device::SetSeed(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  seed_ = seed;
  random_.seed(seed);
  favorite_ = nullptr;
}

std::shared_ptr<Stream> Device::NewStream() {
  const std::lock_guard lock(mutex_);
  return streams_.emplace_back(std::make_shared<Stream>());
}

void Device::Append(Stream& stream, Stream::Task task) {
  stream.tasks_.push_back(std::move(task));
  ++stream.num_given_;
}

void Device::Give(Stream& stream, const WorkList& work) {
  const std::lock_guard lock(mutex_);
  for (const auto& one : work) {
    FillTarget(one->target);
    Append(stream, {.work = one, .source_sum = ChecksumOf(one->source)});
  }
}

void Device::Mark(Stream& stream, const std::shared_ptr<Event>& event) {
  const std::lock_guard lock(mutex_);
  Append(stream, {.event = event, .mark = ++event->num_marked});
}

void Device::WaitFor(Stream& stream, const std::shared_ptr<Event>& event) {
  const std::lock_guard lock(mutex_);
  Append(stream, {.event = event, .mark = event->num_marked, .waits = true});
}

void Device::Run(const Stream::Task& task) {
  if (task.work == nullptr) {
    task.event->num_reached = std::max(task.event->num_reached, task.mark);
    task.event->reached_at = std::chrono::steady_clock::now();
    return;
  }
  if (ChecksumOf(task.work->source) != task.source_sum)
    Fail("host memory was overwritten before the stream had copied it to the device");
  task.work->run();
}

bool Device::RunNext() {
  if (favorite_ == nullptr || !favorite_->IsReady() || random_() % kStay == 0) {
    std::vector<std::shared_ptr<Stream>> ready;
    for (const auto& stream : streams_) {
      if (stream->IsReady()) ready.push_back(stream);
    }
    if (ready.empty()) return false;
    favorite_ = ready[random_() % ready.size()];
  }
  Run(favorite_->tasks_.front());
  favorite_->tasks_.pop_front();
  ++favorite_->num_done_;
  return true;
}

// Lets other threads use the streams between two tasks.
void Device::RunUntil(const std::function<bool()>& is_done) {
  std::unique_lock lock(mutex_);
  while (!is_done()) {
    if (!RunNext()) Fail("a thread waits for work that waits for ever");
    lock.unlock();
    lock.lock();
  }
  favorite_ = nullptr;
  // Streams that the program has dropped, and that are done.
  std::erase_if(streams_, [](const auto& stream) {
    return stream.use_count() == 1 && stream->tasks_.empty();
  });
}

void Device::Finish(Stream& stream) {
  uint64_t num_given = 0;
  {
    const std::lock_guard lock(mutex_);
    num_given = stream.num_given_;
  }
  RunUntil([&] { return stream.num_done_ >= num_given; });
}

void Device::Finish(Event& event) {
  uint64_t num_marked = 0;
  {
    const std::lock_guard lock(mutex_);
    num_marked = event.num_marked;
  }
  RunUntil([&] { return event.num_reached >= num_marked; });
}

void Device::FinishAll() {
  RunUntil([this] {
    return std::all_of(streams_.begin(), streams_.end(),
                       [](const auto& stream) { return stream->tasks_.empty(); });
  });
}

bool Device::IsReached(const Event& event) {
  const std::lock_guard lock(mutex_);
  return event.num_reached >= event.num_marked;
}

bool Device::Lock(const void* begin, size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (const auto& [other, other_bytes] : locked_) {
    if (Overlap({other, other_bytes}, begin, bytes)) return false;
  }
  locked_[static_cast<const std::byte*>(begin)] = bytes;
  return true;
}

void Device::Unlock(const void* begin) {
  const std::lock_guard lock(mutex_);
  const auto range = locked_.find(static_cast<const std::byte*>(begin));
  if (range == locked_.end()) Fail("host memory is unlocked that is not page-locked");
  if (AnyWork([&](const Work& work) {
        return Overlap(work.source, begin, range->second) ||
               Overlap(work.target, begin, range->second);
      }))
    Fail("page-locked host memory is freed before a copy of it has run");
  locked_.erase(range);
}

bool Device::AnyWork(const std::function<bool(const Work&)>& condition) const {
  for (const auto& stream : streams_) {
    for (const Stream::Task& task : stream->tasks_) {
      if (task.work != nullptr && condition(*task.work)) return true;
    }
  }
  return false;
}

// Who reads what has not been copied yet gets NaNs, unless an earlier copy still needs the memory.
void Device::FillTarget(std::span<std::byte> target) {
  if (!target.empty() && !AnyWork([&](const Work& work) {
        return Overlap(work.source, target.data(), target.size());
      }))
    std::memset(target.data(), 0xFF, target.size());
}

bool Device::IsLocked(const void* begin, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto* first = static_cast<const std::byte*>(begin);
  auto range = locked_.upper_bound(first);
  if (range == locked_.begin()) return false;
  --range;
  return first + bytes <= range->first + range->second;
}

}  // namespace cuda_on_host
