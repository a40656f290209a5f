// The coder thread: from a bucket's values to its pushes, beside the backward that is still
// running.
//
//   bucket ready -> statistics, scalers --Scale--> (maximum over the workers)
//   --Scaled--> codes --Push-->
//
// Where a codec keeps something of a tensor (codec.h), that is added before and what the code left
// out is kept after.
//
// (TernGrad, Algorithm 1, lines 3 and 4; sections 3.2 and 3.3.) A bucket without shared scalers is
// coded at once. What can be coded is, before the statistics of what became ready meanwhile: the
// link need not wait for those.
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

#include "common/base/channel.h"
#include "common/base/floats.h"
#include "common/base/saved_state.h"
#include "common/base/threads.h"
#include "common/codec/codec.h"
#include "common/setup/setup.h"
#include "worker/engine/device_model.h"
#include "worker/train/board.h"
#include "worker/train/port.h"
#include "worker/train/progress.h"

namespace tern::train {

class Coder {
 public:
  // Starts the thread. What is not finite ends the worker through `events`. All outlive the coder.
  Coder(const setup::Setup& setup, uint32_t rank, Port& port, Events& events, Progress& progress);
  ~Coder();  // stops and joins

  // The bucket's values of this round are final and stay as they are until its sums have come.
  // `arena` begins with the model's first element. From the compute thread.
  void Push(uint64_t round, uint32_t bucket, const float* arena, protocol::Request request = {});
  // Where rounds are coded with the scalers of a round before: where those of a round and bucket
  // are. Called by Push. Before the first one.
  using ScalersBefore = std::function<std::vector<float>(uint64_t round, uint32_t bucket)>;
  void TakeScalersFrom(ScalersBefore before) { scalers_before_ = std::move(before); }
  // Where pushes are shown, on the steps that it wants; null: nowhere. It outlives the coder.
  // Before the first one.
  void ShowOn(Board* board) { board_ = board; }
  // What is pushed are gradients that lie there, as what codecs keep of them; null: all of it lies
  // here. It outlives the coder. Before the first one.
  void TakeFrom(engine::DeviceModel* device);
  // Returns when all that was pushed is coded, but for what waits for its scalers. Where rounds may
  // close without this worker, before what it pushed is written over. From the compute thread.
  void Finish();
  // This worker takes no part in the round.
  void Skip(uint64_t round);
  // Drops what waits for its scalers, and what codecs have kept; returns when nothing is being
  // coded any more. From the compute thread.
  void Forget();
  // Whether codecs keep anything.
  bool keeps() const { return keeps_; }
  // The same, of a coder that is not there yet.
  static bool KeepsSomething(const setup::Setup& setup);
  // Calls `use` with what codecs have kept, when nothing is being coded; on the coder's thread,
  // while this one, the compute thread, waits. Where a device does not give it, `use` is not
  // called.
  Status WithKept(const std::function<void(SavedState kept)>& use);
  // The maxima have come. From the net thread.
  void Scaled(Answer answer) { work_.Push(std::move(answer)); }

 private:
  struct Ready {
    uint64_t round = 0;
    uint32_t bucket = 0;
    const float* arena = nullptr;
    protocol::Request request;
    std::vector<float> scalers;  // of a round before, where it is coded with those
    uint64_t show_as = 0;        // the step that it is shown as; 0: it is not
  };
  // A bucket that waits for its scalers: what its parts are coded with.
  struct Waiting {
    const float* arena = nullptr;
    protocol::Request request;
    std::vector<codec::Prepared> prepared;  // by part of the bucket
    std::vector<float> own;                 // this worker's scalers of the shared parts
    uint64_t show_as = 0;                   // as Ready's
  };

  struct ForgetAll {
    std::promise<void>* done;
  };
  struct UseKept {
    const std::function<void(SavedState)>* use;  // null: it was only to be waited for
    std::promise<Status>* done;
  };

  void Run();
  // Waits for work. False: there is none, and never will be.
  bool Gather();
  void ForgetAllOf(const ForgetAll& forget);
  Status Show(const UseKept& to);
  // What tensor t's codec keeps: from the device, and to it.
  Status BringKept(uint32_t t, const SavedState& kept);
  Status SendKept(uint32_t t, const SavedState& kept);
  void Prepare(const Ready& ready);
  // False, and the worker ends: what is to be coded is not finite.
  bool PreparePart(const float* arena, const protocol::Part& part, kernels::NoiseKey noise,
                   codec::Prepared* prepared);
  Status Finite(const kernels::Stats& stats, uint32_t tensor, uint64_t round) const;
  // The same of all parts of a bucket whose codecs keep nothing; and on the device.
  bool PrepareParts(const Ready& ready, Waiting* values);
  bool PrepareOnDevice(const Ready& ready, Waiting* values);
  bool End(const Status& status);
  Status WhichIsNotFinite(uint32_t bucket, uint64_t round) const;
  // The tensors whose codecs keep something, when the bucket is coded: another round of it may wait
  // for its scalers before that.
  bool PrepareKept(uint64_t round, const protocol::Bucket& bucket, Waiting* values);
  // The tensors that are one to their codec (prepares_model), when all are ready to be coded.
  void PrepareTogether(uint64_t round, const protocol::Bucket& bucket, Waiting* values);
  // What is to be coded of tensor t: the values themselves, or with what its codec has kept.
  std::span<const float> ToCode(const float* arena, uint32_t t) const {
    const float* from = memories_[t] == nullptr ? arena : compensated_.data();
    return {from + setup_.plan.tensor_begin[t], setup_.plan.tensor_count[t]};
  }
  void Encode(const Waiting& values, const codec::Segment& segment, const codec::Prepared& prepared,
              kernels::NoiseKey noise, std::vector<uint8_t>* codes);
  // What comes before a chunk's codes.
  static std::vector<uint8_t> BeginOf(const protocol::Chunk& chunk, const Waiting& values);
  Result<Bytes> CodesOf(const Waiting& values, const protocol::Chunk& chunk, uint64_t round);
  Result<Bytes> CodesOnDevice(const Waiting& values, const protocol::Chunk& chunk, uint64_t round);
  kernels::NoiseKey NoiseOf(uint64_t round) const;
  void OnScaled(Answer answer);
  void CodeWith(const Answer& scaled, Waiting values);
  void CodeWithScalersBefore(const Ready& ready, Waiting values);
  // Values that are larger than their part's scaler.
  Result<uint64_t> CountClamped(const protocol::Bucket& bucket, const Waiting& values) const;
  Result<uint64_t> CountClampedOnDevice(uint64_t round, const protocol::Bucket& bucket,
                                        const Waiting& values) const;
  // What the bucket is before it is coded, to be shown.
  Result<Board::Pushed> CopyOfDevice(uint64_t step, uint64_t round, uint32_t bucket) const;
  void ForgetBefore(uint64_t round);
  void EncodeAndPush(uint64_t round, uint32_t bucket, Waiting values, uint64_t digest);

  const setup::Setup& setup_;
  const uint32_t rank_;
  Port& port_;
  Events& events_;
  Progress& progress_;
  ScalersBefore scalers_before_;
  Board* board_ = nullptr;
  engine::DeviceModel* device_ = nullptr;
  // By round, bucket. Maxima may come before this worker has contributed to them, where a round
  // does not wait for all.
  std::map<std::pair<uint64_t, uint32_t>, Waiting> waiting_;
  std::map<std::pair<uint64_t, uint32_t>, Answer> early_;
  std::vector<std::unique_ptr<codec::Memory>> memories_;  // by tensor, null: nothing is kept
  const bool keeps_;
  Floats compensated_;  // as the model, where something is kept
  Floats sent_;
  Floats together_;  // what one Prepare is to see
  Channel<std::variant<Ready, Answer, ForgetAll, UseKept>> work_;
  std::deque<Ready> ready_;  // taken from work_, in order
  std::deque<Answer> scaled_;
  std::optional<UseKept> wanted_;
  Thread thread_;  // last: it uses all of the above
};

}  // namespace tern::train
