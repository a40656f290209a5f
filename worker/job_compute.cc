#include "worker/job_compute.h"

namespace tern::worker {

void JobCompute::Begin(uint64_t steps_done) {
  End();
  prefetcher_.emplace(
      batches_.samples(),
      [batches = batches_](uint64_t step) mutable { return batches.SamplesAt(step); },
      data::Prefetcher::Options{.first_step = steps_done,
                                .threads = threads_,
                                .fills_bytes = compute_.TakesBytes(),
                                .pin = compute_.BytesPin()});
}

void JobCompute::End() {
  if (!prefetcher_.has_value()) return;
  compute_.ReleaseBatches();  // The reset of prefetcher_ below frees the batches.
  batch_ = nullptr;
  prefetcher_.reset();
}

Result<uint32_t> JobCompute::FetchSamples() {
  const Result<const data::Batch*> batch = prefetcher_->Next();
  if (!batch.ok()) return batch.status();
  batch_ = *batch;
  compute_.AnnounceNextBatch(prefetcher_->Peek());
  return static_cast<uint32_t>(batch_->labels.size());
}

Result<client::Score> JobCompute::Evaluate(uint32_t part, uint32_t num_parts,
                                           client::Confusion* confusion) {
  const Result<engine::Score> score = evaluator_.Run(part, num_parts, confusion);
  if (!score.ok()) return score.status();
  return client::Score{score->loss, score->correct, score->among_five, score->samples};
}

}  // namespace tern::worker
