// The coder thread: from a bucket's gradients to its pushes, beside the backward that is still
// running.
//
//   bucket ready -> weight decay, statistics, scalers --Scale--> (maximum over the workers)
//   --Scaled--> codes --Push-->
//
// (TernGrad, Algorithm 1, lines 3 and 4; sections 3.2 and 3.3.) A bucket without shared scalers is
// coded at once.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "common/base/channel.h"
#include "common/base/threads.h"
#include "common/codec/codec.h"
#include "common/setup/setup.h"
#include "worker/train/port.h"
#include "worker/train/progress.h"
#include "worker/train/replica.h"

namespace tern::train {

class Coder {
 public:
  // Starts the thread. What is not finite ends the worker through `events`. All outlive the coder.
  Coder(const setup::Setup& setup, uint32_t rank, Replica& replica, Port& port, Events& events,
        Progress& progress);
  ~Coder();  // stops and joins

  // The bucket's gradients of this round are final. From the compute thread.
  void BucketReady(uint64_t round, uint32_t bucket) { work_.Push(Bucket{round, bucket}); }
  // The maxima have come. From the net thread.
  void Scaled(Answer answer) { work_.Push(std::move(answer)); }

 private:
  struct Bucket {
    uint64_t round = 0;
    uint32_t bucket = 0;
  };

  void Run();
  void Prepare(const Bucket& ready);
  void OnScaled(const Answer& answer);
  void EncodeAndPush(uint64_t round, uint32_t bucket, uint64_t digest);

  const setup::Setup& setup_;
  const uint32_t rank_;
  Replica& replica_;
  Port& port_;
  Events& events_;
  Progress& progress_;
  std::vector<codec::Prepared> prepared_;  // by tensor
  Channel<std::variant<Bucket, Answer>> work_;
  Thread thread_;  // last: it uses all of the above
};

// The weight decay of tensor `t` in the place `where`; 0 where the job has none there.
float DecayOf(const setup::Setup& setup, uint32_t t, pb::WeightDecay::Where where);

}  // namespace tern::train
