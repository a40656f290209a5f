// The coder thread: turns a bucket's values into its pushes, while backward still runs.
//
//   bucket ready -> statistics, scalers --Scale--> (maximum over the workers)
//   --Scaled--> codes --Push-->
//
// (TernGrad, Algorithm 1, lines 3 and 4; sections 3.2 and 3.3.) A bucket without scalers that all
// workers share is encoded at once. A codec's memory (codec.h) is added to the values before
// encoding and updated after it. Encoding takes priority over statistics of newly ready buckets, so
// that the link does not wait.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "client/exchange/gradient_coder.h"
#include "client/exchange/observer.h"
#include "client/exchange/port.h"
#include "client/exchange/progress.h"
#include "common/base/channel.h"
#include "common/base/saved_state.h"
#include "common/base/threads.h"
#include "setup/setup.h"

namespace tern::client {

class Coder {
 public:
  // Starts the thread, which alone uses `codes` from now on. A non-finite value ends the worker
  // through `events`. The other arguments outlive the coder.
  Coder(const setup::Setup& setup, std::unique_ptr<GradientCoder> codes, Port& port, Events& events,
        Progress& progress);
  ~Coder();  // stops and joins

  // Encodes and pushes a bucket in a round (in a job without rounds: at this worker's clock). Its
  // values of this round must be final, and must not change until the answer has arrived. `arena`
  // points at the model's first element. `wants_weights`: whether the answer must have weights.
  // From the compute thread.
  void Push(uint64_t round, uint32_t bucket, const float* arena, bool wants_weights = true);
  // For rounds that are encoded with the scalers of an earlier round: the function from which Push
  // gets those scalers. Call before the first Push.
  using ScalersBefore = std::function<std::vector<float>(uint64_t round, uint32_t bucket)>;
  void TakeScalersFrom(ScalersBefore before) { scalers_before_ = std::move(before); }
  // Shows `observer` the pushes of the steps that it asks for. Null: no observer. It outlives the
  // coder.
  // Call before the first Push.
  void ShowTo(Observer* observer) { observer_ = observer; }
  // Waits until all pushes are encoded, except those that wait for scalers. If rounds may close
  // without this worker, call it before overwriting pushed values. From the compute thread.
  void Finish();
  // Tells the servers that this worker takes no part in the round.
  void Skip(uint64_t round);
  // Without rounds: tells the servers that this worker pushes nothing at this clock or later.
  void Part(uint64_t clock);
  // Drops the pushes that wait for scalers, and clears the codecs' memories; returns when no coding
  // is in progress. From the compute thread.
  void Forget();
  // Whether any codec has a memory.
  bool keeps() const { return keeps_; }
  // Calls `use` with the codecs' memories while nothing is being coded: on the coder's thread,
  // while the caller, the compute thread, waits. If a device does not return them, `use` is not
  // called.
  Status WithKept(const std::function<void(SavedState kept)>& use);
  // Takes the maximum scalers of a bucket. From the net thread.
  void Scaled(Answer answer) { work_.Push(std::move(answer)); }

 private:
  struct Ready {
    GradientCoder::Values values;
    bool wants_weights = true;
    std::vector<float> scalers;  // those of an earlier round, if the plan uses them; else empty
    uint64_t show_as = 0;        // the step under which the observer shows it; 0: not shown
  };
  // A bucket that is prepared for encoding and waits for its scalers.
  struct Waiting {
    Ready of;
    GradientCoder::Prepared prepared;
    std::vector<float> own;  // this worker's scalers of the shared parts
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
  // Each of these functions returns the error that ends the worker.
  Status Prepare(Ready ready);
  Status OnScaled(Answer answer);
  Status CodeWith(const Answer& scaled, Waiting waiting);
  Status CodeWithScalersBefore(Waiting waiting);
  Status EncodeAndPush(Waiting waiting, uint64_t digest);
  protocol::Contribution FormOf(const Ready& of, uint64_t digest, Bytes payload) const;
  void ForgetBefore(uint64_t round);

  const setup::Setup& setup_;
  const std::unique_ptr<GradientCoder> codes_;
  Port& port_;
  Events& events_;
  Progress& progress_;
  ScalersBefore scalers_before_;
  Observer* observer_ = nullptr;
  // By (round, bucket): the buckets that wait for their scalers; and scalers that arrived before
  // this worker contributed its own, as happens if a round does not wait for all workers.
  std::map<std::pair<uint64_t, uint32_t>, Waiting> waiting_;
  std::map<std::pair<uint64_t, uint32_t>, Answer> early_;
  const bool keeps_;
  Channel<std::variant<Ready, Answer, ForgetAll, UseKept>> work_;
  std::deque<Ready> ready_;  // taken from work_, in order
  std::deque<Answer> scaled_;
  std::optional<UseKept> wanted_;
  Thread thread_;  // last: it uses all of the above
};

}  // namespace tern::client
