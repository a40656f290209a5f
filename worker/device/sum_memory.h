// Page-locked memory for sums of the workers' codes. The net thread copies a sum there when it
// arrives, while others still travel; the compute thread then launches the copy to the device
// without copying the sum on the host first. Internal to worker/device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "common/base/bytes.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "worker/device/device.h"

namespace tern::device {

class SumMemory {
 public:
  // The most page-locked memory, in bytes: the operating system cannot use it otherwise.
  static constexpr size_t kMaxBytes = size_t{256} << 20;

  // `max_sum_bytes`: the size of the largest sum that Place copies.
  explicit SumMemory(size_t max_sum_bytes);
  ~SumMemory();  // Waits for the copies to the device.

  // Returns a copy of `sum` in page-locked memory. Returns `sum` itself if it is too large, if
  // kMaxBytes are in use, or if the system page-locks no memory. Any thread may call it. The result
  // may outlive this object.
  Bytes Place(const Bytes& sum);
  // Launches the copy of `bytes` to the device. `bytes` may be released as soon as this returns,
  // wherever they are: memory of Place is not used again before it has been copied, and other bytes
  // are copied at once.
  Status CopyIn(Stream* stream, void* device, std::span<const uint8_t> bytes);

 private:
  // Memory for one sum. `copied` is recorded after its last copy to the device. `is_taken`: whether
  // a result of Place refers to it.
  struct Slab {
    PinnedMemory memory;
    std::unique_ptr<Event> copied;
    bool is_taken = false;
  };
  // Results of Place share this.
  struct Slabs {
    Mutex mutex;
    std::map<const uint8_t*, Slab> by_begin TERN_GUARDED_BY(mutex);
    bool has_failed TERN_GUARDED_BY(mutex) = false;  // Whether the system page-locks no more.
  };
  // Takes a slab, or allocates one; nullptr if it can do neither.
  uint8_t* Take();
  uint8_t* Allocate() TERN_MUST_HOLD(slabs_->mutex);
  // The event of the slab that has `byte`; nullptr if none has.
  Event* CopiedEventOf(const uint8_t* byte) const;

  const size_t slab_bytes_;
  const std::shared_ptr<Slabs> slabs_ = std::make_shared<Slabs>();
};

}  // namespace tern::device
