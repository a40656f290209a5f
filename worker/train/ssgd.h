// Synchronous SGD with localized parameters: TernGrad's Algorithm 1 when the codec is ternary.
//
//   input z_t^(i)          the batch of this worker
//   compute g_t^(i)        forward, backward; buckets leave for the coder while backward still runs
//   ternarize, push        coder.h
//   pull mean gradient     wait for the sums of all chunks
//   update w               apply.h
//
// Before the step of some rounds, and after the last, the workers compare the hashes of their
// replicas and evaluate.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "common/setup/setup.h"
#include "worker/data/batches.h"
#include "worker/engine/net.h"
#include "worker/train/apply.h"
#include "worker/train/coder.h"
#include "worker/train/evaluate.h"
#include "worker/train/port.h"
#include "worker/train/progress.h"
#include "worker/train/replica.h"

namespace tern::train {

class Ssgd {
 public:
  struct Parts {
    const setup::Setup& setup;
    uint32_t rank;
    uint64_t steps;
    const data::Batches& batches;  // copied into the prefetcher when the first round is known
    engine::Net& net;
    Evaluate& evaluate;
    Replica& replica;
    Coder& coder;
    Port& port;
    Events& events;
    Progress& progress;
  };
  explicit Ssgd(const Parts& parts);

  // Trains to the end of the job; says the last word on the port. The status to leave with.
  Status Run();

 private:
  Status Train();
  Status Step(uint64_t round);
  // Takes events until `done`; the error that ends the worker otherwise.
  Status WaitUntil(const std::function<bool()>& done);
  // After the last word: a worker that was lost near the end and is back needs State from one that
  // is done.
  void ServeUntilEnded();
  void StopAfter(uint64_t round);
  Status Handle(Event event);
  void OnAnswer(const Answer& answer);
  bool FiguresAreDue(uint64_t round) const;
  bool EvaluationIsDue(uint64_t round) const;
  // Evaluation, comparison of the replicas' hashes, mean loss: of W(round - 1), over all workers.
  Status ExchangeFigures(uint64_t round);
  Status CheckFigures(const pb::FiguresOfAll& all, uint64_t round);

  Parts p_;
  Apply apply_;
  std::vector<uint32_t> bucket_of_;     // by tensor
  std::vector<uint32_t> tensors_left_;  // by bucket, in the backward that runs
  size_t chunks_ = 0;                   // of the plan
  size_t sums_in_ = 0;                  // of the open round
  std::optional<uint64_t> applied_;     // set once the first step may begin
  uint64_t last_round_;
  double learning_rate_ = 0;
  std::optional<pb::FiguresOfAll> answered_figures_;
  std::optional<Status> leave_;  // asked for by a signal
  double loss_sum_ = 0;          // since the last figures
  uint64_t loss_samples_ = 0;
  pb::Figures figures_;  // of all workers, the newest evaluation
};

}  // namespace tern::train
