#include "worker/device/sum_memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace tern::device {

SumMemory::SumMemory(size_t max_sum_bytes) : slab_bytes_(std::max<size_t>(max_sum_bytes, 1)) {}

SumMemory::~SumMemory() {
  const MutexLock lock(slabs_->mutex);
  for (auto& [begin, slab] : slabs_->by_begin) (void)slab.copied->Wait();
}

uint8_t* SumMemory::Allocate() {
  if (slabs_->has_failed || (slabs_->by_begin.size() + 1) * slab_bytes_ > kMaxBytes) return nullptr;
  auto memory = AllocatePinned(slab_bytes_);
  auto copied = Event::Make();
  slabs_->has_failed = !memory.ok() || !copied.ok();
  if (slabs_->has_failed) return nullptr;
  uint8_t* const begin = memory->get();
  slabs_->by_begin.try_emplace(begin, Slab{std::move(*memory), std::move(*copied), true});
  return begin;
}

uint8_t* SumMemory::Take() {
  const MutexLock lock(slabs_->mutex);
  for (auto& [begin, slab] : slabs_->by_begin) {
    if (slab.is_taken) continue;
    const Result<bool> is_copied = slab.copied->IsDone();
    if (!is_copied.ok() || !*is_copied) continue;
    slab.is_taken = true;
    return slab.memory.get();
  }
  return Allocate();
}

Bytes SumMemory::Place(const Bytes& sum) {
  if (sum.empty() || sum.size() > slab_bytes_) return sum;
  uint8_t* const begin = Take();
  if (begin == nullptr) return sum;
  std::memcpy(begin, sum.data(), sum.size());
  return Bytes::Share(begin, sum.size(), [slabs = slabs_, begin] {
    const MutexLock lock(slabs->mutex);
    slabs->by_begin.at(begin).is_taken = false;
  });
}

Event* SumMemory::CopiedEventOf(const uint8_t* byte) const {
  const MutexLock lock(slabs_->mutex);
  const auto next = slabs_->by_begin.upper_bound(byte);
  if (next == slabs_->by_begin.begin()) return nullptr;
  const auto& [begin, slab] = *std::prev(next);
  return byte < begin + slab_bytes_ ? slab.copied.get() : nullptr;
}

Status SumMemory::CopyIn(Stream* stream, void* device, std::span<const uint8_t> bytes) {
  Event* const copied = CopiedEventOf(bytes.data());
  if (copied == nullptr) return stream->CopyInNow(device, bytes.data(), bytes.size());
  TERN_RETURN_IF_ERROR(stream->CopyIn(device, bytes.data(), bytes.size()));
  return copied->Record(*stream);
}

}  // namespace tern::device
