// Implements client::Compute, the interface through which a worker's training loop computes: it
// takes batches of the training set from a prefetcher, runs forward and backward passes with a
// BatchCompute, and evaluates on the test set.
#pragma once

#include <cstdint>
#include <optional>

#include "client/train/compute.h"
#include "worker/batch_compute.h"
#include "worker/data/batches.h"
#include "worker/data/prefetcher.h"
#include "worker/evaluate.h"

namespace tern::worker {

class JobCompute : public client::Compute {
 public:
  // `threads`: how many threads decode and augment images. `batches` is copied. The Samples that
  // `batches` refers to, `compute` and `evaluator` must outlive this object.
  JobCompute(const data::Batches& batches, uint32_t threads, BatchCompute& compute,
             worker::Evaluator& evaluator)
      : batches_(batches), threads_(threads), compute_(compute), evaluator_(evaluator) {}
  ~JobCompute() override { End(); }

  uint64_t steps_per_epoch() const override { return batches_.epochs().steps_per_epoch(); }
  std::vector<std::string> class_names() const override { return evaluator_.class_names(); }
  void Begin(uint64_t steps_done) override;
  void End() override;
  Result<uint32_t> FetchSamples() override;
  double Forward(const BeforeTensorRead& before_read) override {
    return compute_.Forward(*batch_, before_read);
  }
  void Backward(const OnGradientReady& on_ready) override { compute_.Backward(on_ready); }
  Status status() const override { return compute_.status(); }
  Result<client::Score> Evaluate(uint32_t part, uint32_t num_parts,
                                 client::Confusion* confusion) override;

 private:
  const data::Batches batches_;
  const uint32_t threads_;
  BatchCompute& compute_;
  worker::Evaluator& evaluator_;
  std::optional<data::Prefetcher> prefetcher_;
  const data::Batch* batch_ = nullptr;  // The batch of the current step, owned by prefetcher_.
};

}  // namespace tern::worker
