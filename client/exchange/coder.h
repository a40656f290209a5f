// The coder thread: encodes the values of a bucket (a range of the model) and pushes the codes,
// while the backward pass still runs.
//
//   bucket ready -> statistics, scalers --Scale--> (maximum over the workers)
//   --Scaled--> codes --Push-->
//
// (TernGrad, Algorithm 1, lines 3 and 4; sections 3.2 and 3.3.) Scalers are the codecs' scale
// factors. A bucket needs no Scale and Scaled if its scalers are not shared, or if the workers use
// the scalers of an earlier round. A codec's memory (its state from round to round, for example the
// residual of error feedback) is added to the values before encoding and updated after encoding.
// Encoding has priority over the statistics of buckets that have become ready, so that the network
// is not idle.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/exchange/gradient_coder.h"
#include "client/exchange/observer.h"
#include "client/exchange/port.h"
#include "client/exchange/progress.h"
#include "client/exchange/sums.h"
#include "common/base/channel.h"
#include "common/base/saved_state.h"
#include "common/base/stack_trace.h"
#include "common/base/threads.h"
#include "setup/setup.h"

namespace tern::client {

class Coder {
 public:
  // Starts the thread, which alone uses `gradient_coder` from now on. An error, for example a value
  // that is not finite, ends the worker through `events`. The references outlive the coder.
  Coder(const setup::Setup& setup, std::unique_ptr<GradientCoder> gradient_coder, Port& port,
        Events& events, Progress& progress);
  ~Coder();  // stops and joins the thread

  // Encodes and pushes a bucket in a round (in a job without rounds: in the exchange that `round`
  // numbers). The bucket's values must be final, and must not change until the answer has arrived.
  // `arena` points at the model's first element. `wants_weights`, without rounds: whether the
  // answer must have weights. Called on the compute thread.
  void Push(uint64_t round, uint32_t bucket, const float* arena, bool wants_weights = true);
  // Sets the function that returns the scalers for rounds that are encoded with the scalers of an
  // earlier round. Call before the first Push.
  using EarlierScalersFunction = std::function<std::vector<float>(uint64_t round, uint32_t bucket)>;
  void SetEarlierScalersFunction(EarlierScalersFunction get_scalers) {
    get_earlier_scalers_ = std::move(get_scalers);
  }
  // Shows `observer` (null: none) the pushes of the steps that it asks for. The observer outlives
  // the coder. Call before the first Push.
  void SetObserver(Observer* observer) { observer_ = observer; }
  // Shows the observer the means over the workers of the pushes of `round`, if it was shown this
  // worker's. Call when the round has been applied. Called on the compute thread.
  void ShowMeans(uint64_t round, const Sums& sums);
  // Waits until all pushes are encoded, except those that wait for scalers. If rounds may close
  // without this worker, call this before overwriting pushed values. Called on the compute thread.
  void AwaitEncoding();
  // Tells the servers that this worker takes no part in the round.
  void SkipRound(uint64_t round);
  // Without rounds: tells the servers that this worker pushes nothing in exchange `clock` or later.
  void AnnounceParting(uint64_t clock);
  // Drops all pushes that are not encoded yet, and clears the codecs' memories. Returns when that
  // is done. Called on the compute thread.
  void DropPushesAndMemories();
  // Whether any codec has a memory.
  bool has_memories() const { return has_memories_; }
  // Calls `use` with the codecs' memories on the coder thread, while nothing is being encoded and
  // the caller, the compute thread, waits. Returns an error, and does not call `use`, if a device
  // cannot return the memories.
  Status VisitMemories(const std::function<void(SavedState kept)>& use);
  // Receives the maximum over the workers of a bucket's scalers. Called on the net thread.
  void ReceiveScalers(Answer answer) { Submit(std::move(answer)); }
  // The call stack of the coder thread, for the log. Any thread may call it.
  std::string Stack() { return StackOfThread(thread_.handle()); }

 private:
  // A bucket whose values are final, and how to push it.
  struct ReadyBucket {
    GradientCoder::BucketValues values;
    bool wants_weights = true;
    // The scalers of an earlier round, if the exchange plan uses them; else empty.
    std::vector<float> scalers;
    uint64_t observed_step = 0;  // the step with which the observer is shown the push; 0: not shown
  };
  // A bucket that is prepared for encoding. It may wait for the scalers that the workers share.
  struct WaitingBucket {
    ReadyBucket ready_bucket;
    GradientCoder::BucketParams params;
    std::vector<float> own_scalers;  // of the parts whose scalers the workers share
  };

  struct DropRequest {
    std::promise<void>* completion;
  };
  struct VisitRequest {                          // from VisitMemories or AwaitEncoding
    const std::function<void(SavedState)>* use;  // null: only waits for the coder to be idle
    std::promise<Status>* completion;
  };

  using Work = std::variant<ReadyBucket, Answer, DropRequest, VisitRequest>;

  // Gives the coder thread an item of work. `progress_` counts the item, and counts it again when
  // the coder has finished it.
  void Submit(Work work);
  void Run();
  // Moves new work to ready_buckets_, scaler_answers_ and pending_visit_, and executes a
  // DropRequest; waits while there is nothing to do. Returns false if the channel is closed and no
  // work is left.
  bool TakeWork();
  void OnDropRequest(const DropRequest& drop);
  // The functions below that return a Status return the error that ends the worker, if any.
  Status Prepare(ReadyBucket ready_bucket);
  Result<GradientCoder::BucketParams> PrepareParams(const GradientCoder::BucketValues& values);
  Status OnScaled(Answer answer);
  Status EncodeWithSharedScalers(const Answer& answer, WaitingBucket waiting_bucket);
  Status EncodeWithEarlierScalers(WaitingBucket waiting_bucket);
  Status EncodeAndPush(WaitingBucket waiting_bucket, uint64_t digest);
  protocol::Contribution MakeContribution(const ReadyBucket& ready_bucket, uint64_t digest,
                                          Bytes payload) const;
  void DropRoundsBefore(uint64_t round);

  const setup::Setup& setup_;
  const std::unique_ptr<GradientCoder> gradient_coder_;
  Port& port_;
  Events& events_;
  Progress& progress_;
  EarlierScalersFunction get_earlier_scalers_;
  Observer* observer_ = nullptr;
  // The steps whose means the observer waits for, by round. Used by the compute thread.
  std::map<uint64_t, uint64_t> observed_steps_;
  // Both maps have the key (round, bucket). waiting_buckets_: the buckets that wait for their
  // scalers. early_scalers_: answers with shared scalers that arrived before this worker sent its
  // own scalers, as may happen if a round does not wait for all workers.
  std::map<std::pair<uint64_t, uint32_t>, WaitingBucket> waiting_buckets_;
  std::map<std::pair<uint64_t, uint32_t>, Answer> early_scalers_;
  const bool has_memories_;
  Channel<Work> work_;
  std::deque<ReadyBucket> ready_buckets_;      // buckets to prepare, in order
  std::deque<Answer> scaler_answers_;          // answers with shared scalers, in order
  std::optional<VisitRequest> pending_visit_;  // a VisitRequest that waits until the coder is idle
  Thread thread_;  // The last member, because the thread uses all members above.
};

}  // namespace tern::client
