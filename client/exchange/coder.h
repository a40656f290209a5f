// The coder thread: turns a bucket's values into its pushes, while backward still runs.
//
//   bucket ready -> statistics, scalers --Scale--> (maximum over the workers)
//   --Scaled--> codes --Push-->
//
// (TernGrad, Algorithm 1, lines 3 and 4; sections 3.2 and 3.3.) A bucket without shared scalers is
// coded at once. If a codec has memories (codec.h), they are added before coding and updated after
// it. Encoding takes priority over statistics of newly ready buckets, so that the link does not
// wait.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "client/exchange/observer.h"
#include "client/exchange/port.h"
#include "client/exchange/progress.h"
#include "common/base/channel.h"
#include "common/base/floats.h"
#include "common/base/saved_state.h"
#include "common/base/threads.h"
#include "common/codec/codec.h"
#include "kernels/codes/stats.h"
#include "setup/setup.h"
#include "worker/device/device_model.h"

namespace tern::client {

class Coder {
 public:
  // Starts the thread. A non-finite value ends the worker through `events`. All arguments outlive
  // the coder.
  Coder(const setup::Setup& setup, uint32_t rank, Port& port, Events& events, Progress& progress);
  ~Coder();  // stops and joins

  // Codes and pushes a bucket. Its values of this round are final and must not change until its
  // sums have arrived. `arena` points at the model's first element. From the compute thread.
  void Push(uint64_t round, uint32_t bucket, const float* arena, protocol::Request request = {});
  // For rounds that are coded with the scalers of an earlier round: where Push gets the scalers of
  // a round and bucket. Call before the first Push.
  using ScalersBefore = std::function<std::vector<float>(uint64_t round, uint32_t bucket)>;
  void TakeScalersFrom(ScalersBefore before) { scalers_before_ = std::move(before); }
  // Shows `observer` the pushes of the steps that it asks for; null: nobody. It outlives the coder.
  // Call before the first Push.
  void ShowTo(Observer* observer) { observer_ = observer; }
  // Gradients, and the codecs' memories of them, are on this device; null: on the host. `device`
  // outlives the coder. Call before the first Push.
  void TakeFrom(device::DeviceModel* device);
  // Waits until all pushes are coded, except those that wait for scalers. If rounds may close
  // without this worker, call it before overwriting pushed values. From the compute thread.
  void Finish();
  // Tells the servers that this worker takes no part in the round.
  void Skip(uint64_t round);
  // Drops the pushes that wait for scalers, and clears the codecs' memories; returns when no coding
  // is in progress. From the compute thread.
  void Forget();
  // Whether any codec has a memory.
  bool keeps() const { return keeps_; }
  // The same, before there is a coder.
  static bool KeepsSomething(const setup::Setup& setup);
  // Calls `use` with the codecs' memories while nothing is being coded: on the coder's thread,
  // while the caller, the compute thread, waits. If a device does not return them, `use` is not
  // called.
  Status WithKept(const std::function<void(SavedState kept)>& use);
  // Takes the maximum scalers of a bucket. From the net thread.
  void Scaled(Answer answer) { work_.Push(std::move(answer)); }

 private:
  struct Ready {
    uint64_t round = 0;
    uint32_t bucket = 0;
    const float* arena = nullptr;
    protocol::Request request;
    std::vector<float> scalers;  // of an earlier round, if it is coded with those
    uint64_t show_as = 0;        // the step under which it is shown; 0: it is not
  };
  // A bucket that waits for its scalers, prepared for coding.
  struct Waiting {
    const float* arena = nullptr;
    protocol::Request request;
    std::vector<codec::Prepared> prepared;  // by part of the bucket
    std::vector<float> own;                 // this worker's scalers of the shared parts
    uint64_t show_as = 0;                   // as in Ready
  };

  struct ForgetAll {
    std::promise<void>* done;
  };
  struct UseKept {
    const std::function<void(SavedState)>* use;  // null: only waits for the coder to be idle
    std::promise<Status>* done;
  };

  void Run();
  // Waits for work. Returns false if the channel is closed and empty.
  bool Gather();
  void ForgetAllOf(const ForgetAll& forget);
  Status Show(const UseKept& to);
  // Copies the memory of tensor t's codec: device -> host, and host -> device.
  Status BringKept(uint32_t t, const SavedState& kept);
  Status SendKept(uint32_t t, const SavedState& kept);
  void Prepare(const Ready& ready);
  // Returns false, and ends the worker, if a value to code is not finite.
  bool PreparePart(const float* arena, const protocol::Part& part, kernels::NoiseKey noise,
                   codec::Prepared* prepared);
  Status Finite(const kernels::Stats& stats, uint32_t tensor, uint64_t round) const;
  // The same for all parts of a bucket whose codecs have no memory; and on the device.
  bool PrepareParts(const Ready& ready, Waiting* values);
  bool PrepareOnDevice(const Ready& ready, Waiting* values);
  bool End(const Status& status);
  Status WhichIsNotFinite(uint32_t bucket, uint64_t round) const;
  // Prepares tensors whose codecs have a memory, when the bucket is coded: an earlier round of the
  // bucket may be waiting for its scalers until then.
  bool PrepareKept(uint64_t round, const protocol::Bucket& bucket, Waiting* values);
  // Prepares the tensors that their codec prepares as one (prepares_model), when all are ready.
  void PrepareTogether(uint64_t round, const protocol::Bucket& bucket, Waiting* values);
  // The values of tensor t to code: the arena's, or those with the codec's memory added.
  std::span<const float> ToCode(const float* arena, uint32_t t) const {
    const float* from = memories_[t] == nullptr ? arena : compensated_.data();
    return {from + setup_.plan.tensor_begin[t], setup_.plan.tensor_count[t]};
  }
  void Encode(const Waiting& values, const codec::Segment& segment, const codec::Prepared& prepared,
              kernels::NoiseKey noise, std::vector<uint8_t>* codes);
  // The bytes before a chunk's codes.
  static std::vector<uint8_t> BeginOf(const protocol::Chunk& chunk, const Waiting& values);
  Result<Bytes> CodesOf(const Waiting& values, const protocol::Chunk& chunk, uint64_t round);
  Result<Bytes> CodesOnDevice(const Waiting& values, const protocol::Chunk& chunk, uint64_t round);
  kernels::NoiseKey NoiseOf(uint64_t round) const;
  void OnScaled(Answer answer);
  void CodeWith(const Answer& scaled, Waiting values);
  void CodeWithScalersBefore(const Ready& ready, Waiting values);
  // Counts the values that exceed their part's scaler.
  Result<uint64_t> CountClamped(const protocol::Bucket& bucket, const Waiting& values) const;
  Result<uint64_t> CountClampedOnDevice(uint64_t round, const protocol::Bucket& bucket,
                                        const Waiting& values) const;
  // Copies the bucket before coding, to show it.
  Result<Observer::Pushed> Copy(uint64_t step, uint32_t bucket, const float* arena) const;
  Result<Observer::Pushed> CopyOfDevice(uint64_t step, uint64_t round, uint32_t bucket) const;
  void ForgetBefore(uint64_t round);
  void EncodeAndPush(uint64_t round, uint32_t bucket, Waiting values, uint64_t digest);

  const setup::Setup& setup_;
  const uint32_t rank_;
  Port& port_;
  Events& events_;
  Progress& progress_;
  ScalersBefore scalers_before_;
  Observer* observer_ = nullptr;
  device::DeviceModel* device_ = nullptr;
  // By round, bucket. Maxima may arrive before this worker has contributed, if a round does not
  // wait for all workers.
  std::map<std::pair<uint64_t, uint32_t>, Waiting> waiting_;
  std::map<std::pair<uint64_t, uint32_t>, Answer> early_;
  std::vector<std::unique_ptr<codec::Memory>> memories_;  // by tensor; null: none
  const bool keeps_;
  Floats compensated_;  // as long as the model, if there are memories
  Floats sent_;
  Floats together_;  // the values for one Prepare
  Channel<std::variant<Ready, Answer, ForgetAll, UseKept>> work_;
  std::deque<Ready> ready_;  // taken from work_, in order
  std::deque<Answer> scaled_;
  std::optional<UseKept> wanted_;
  Thread thread_;  // last: it uses all of the above
};

}  // namespace tern::client
