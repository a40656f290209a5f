#include "worker/train/ssgd.h"

#include <algorithm>
#include <utility>

#include "common/base/hash.h"
#include "common/base/logging.h"
#include "common/base/text.h"

namespace tern::train {

Ssgd::Ssgd(const Parts& parts)
    : p_(parts), apply_(parts.setup, parts.replica), last_round_(parts.steps) {
  const protocol::ExchangePlan& plan = p_.setup.plan;
  bucket_of_.resize(plan.tensor_count.size());
  for (uint32_t b = 0; b < plan.buckets.size(); ++b) {
    const protocol::Bucket& bucket = plan.buckets[b];
    std::fill_n(bucket_of_.begin() + bucket.first_tensor, bucket.tensors, b);
    chunks_ += bucket.chunks.size();
  }
}

Status Ssgd::Run() {
  const Status status = Train();
  p_.progress.waiting = true;
  // The net thread needs to hear it even when the job ended on its own: it is waiting for nothing
  // else.
  p_.port.Finish(status, figures_);
  if (status.ok()) ServeUntilEnded();
  return status;
}

void Ssgd::ServeUntilEnded() {
  while (std::optional<Event> event = p_.events.Pop()) {
    if (std::holds_alternative<Ended>(*event)) return;
    if (std::holds_alternative<SnapshotWanted>(*event))
      p_.port.Snapshot(p_.replica.SaveState(*applied_), *applied_);
  }
}

Status Ssgd::Train() {
  TERN_RETURN_IF_ERROR(WaitUntil([this] { return applied_.has_value(); }));
  data::Prefetcher prefetcher(p_.batches, *applied_);
  LOG(INFO) << "training from round " << *applied_ + 1 << " to " << last_round_;
  while (*applied_ < last_round_) {
    const uint64_t round = *applied_ + 1;
    if (FiguresAreDue(round)) TERN_RETURN_IF_ERROR(ExchangeFigures(round));
    if (leave_.has_value()) return *leave_;
    TimeScope time(p_.progress.train);
    const data::Batch& batch = prefetcher.Next();
    {
      TimeScope compute(p_.progress.compute);
      const auto samples = static_cast<uint32_t>(batch.labels.size());
      const double loss = p_.net.Forward(batch.images, batch.labels, samples, nullptr);
      p_.progress.loss.Set(loss);
      loss_sum_ += loss * samples;
      loss_samples_ += samples;
      p_.progress.samples.Add(samples);
    }
    TERN_RETURN_IF_ERROR(Step(round));
  }
  TERN_RETURN_IF_ERROR(ExchangeFigures(*applied_ + 1));
  if (p_.rank == 0)
    TERN_RETURN_IF_ERROR(p_.replica.WriteWeights(p_.setup.job.output_dir(), *applied_));
  return Ok();
}

Status Ssgd::Step(uint64_t round) {
  tensors_left_.clear();
  for (const protocol::Bucket& bucket : p_.setup.plan.buckets)
    tensors_left_.push_back(bucket.tensors);
  sums_in_ = 0;
  {
    TimeScope compute(p_.progress.compute);
    p_.net.Backward([&](uint32_t tensor) {
      const uint32_t bucket = bucket_of_[tensor];
      if (--tensors_left_[bucket] == 0) p_.coder.BucketReady(round, bucket);
    });
  }
  p_.progress.Move();
  TERN_RETURN_IF_ERROR(WaitUntil([this] { return sums_in_ == chunks_; }));
  {
    TimeScope decode(p_.progress.decode);
    TERN_RETURN_IF_ERROR(apply_.Run(round, static_cast<float>(learning_rate_)));
  }
  applied_ = round;
  p_.port.Applied(round);
  p_.progress.rounds.Add();
  p_.progress.learning_rate.Set(learning_rate_);
  p_.progress.Move();
  return Ok();
}

Status Ssgd::WaitUntil(const std::function<bool()>& done) {
  if (done()) return Ok();
  TimeScope wait(p_.progress.wait);
  p_.progress.waiting = true;
  while (!done()) {
    std::optional<Event> event = p_.events.Pop();
    if (!event.has_value()) return Status(Code::kInternal, "the net thread is gone");
    TERN_RETURN_IF_ERROR(Handle(std::move(*event)));
  }
  p_.progress.waiting = false;
  return Ok();
}

Status Ssgd::Handle(Event event) {
  if (const auto* answer = std::get_if<Answer>(&event)) {
    OnAnswer(*answer);
  } else if (const auto* ready = std::get_if<Ready>(&event)) {
    applied_ = ready->applied;
    StopAfter(ready->stop_after);
  } else if (std::holds_alternative<SnapshotWanted>(event)) {
    // Between two rounds: while this thread waits, the parameters stand at W(applied).
    p_.port.Snapshot(p_.replica.SaveState(*applied_), *applied_);
  } else if (const auto* state = std::get_if<StateArrived>(&event)) {
    TERN_RETURN_IF_ERROR(p_.replica.LoadState(state->state));
    LOG(WARNING) << "took over the state after round " << state->applied << " from another worker";
    p_.port.Installed();
  } else if (const auto* leave = std::get_if<LeaveWanted>(&event)) {
    leave_ = leave->status;
    if (!applied_.has_value()) return *leave_;
  } else {
    return std::get<Ended>(event).status;
  }
  return Ok();
}

void Ssgd::OnAnswer(const Answer& answer) {
  switch (answer.cell.kind) {
    case protocol::Kind::kScale:
      return apply_.SetScalers(answer.cell.bucket, answer.payload);
    case protocol::Kind::kFigures:
      answered_figures_.emplace();
      if (!answered_figures_->ParseFromArray(answer.payload.data(),
                                             static_cast<int>(answer.payload.size()))) {
        LOG(WARNING) << "figures that do not parse";
      }
      return;
    case protocol::Kind::kPush:
      break;
  }
  apply_.SetSum(answer.cell.bucket, answer.cell.chunk, answer.payload);
  ++sums_in_;
  if (answer.outcome.has_learning_rate()) learning_rate_ = answer.outcome.learning_rate();
  StopAfter(answer.outcome.stop_after());
}

void Ssgd::StopAfter(uint64_t round) {
  if (round == 0 || round >= last_round_) return;
  last_round_ = round;
  LOG(WARNING) << "the job stops in order after round " << last_round_;
}

bool Ssgd::EvaluationIsDue(uint64_t round) const {
  const uint64_t every = p_.setup.job.evaluation().every_steps();
  return round > last_round_ || (every != 0 && round > 1 && (round - 1) % every == 0);
}

bool Ssgd::FiguresAreDue(uint64_t round) const {
  return round > 1 &&
         ((round - 1) % p_.setup.job.faults().compare_every_steps() == 0 || EvaluationIsDue(round));
}

Status Ssgd::ExchangeFigures(uint64_t round) {
  pb::Figures mine;
  mine.set_parameters_hash(p_.replica.Hash());
  mine.set_train_loss(loss_sum_);
  mine.set_train_samples(loss_samples_);
  if (EvaluationIsDue(round)) {
    const engine::Score score = p_.evaluate.Run();
    mine.set_test_loss(score.loss);
    mine.set_test_correct(score.correct);
    mine.set_test_samples(score.samples);
  }
  loss_sum_ = 0;
  loss_samples_ = 0;
  answered_figures_.reset();
  p_.port.Contribute({protocol::Kind::kFigures, 0, 0}, round, 0,
                     Bytes::Own(mine.SerializeAsString()));
  TERN_RETURN_IF_ERROR(WaitUntil([this] { return answered_figures_.has_value(); }));
  return CheckFigures(*answered_figures_, round);
}

Status Ssgd::CheckFigures(const pb::FiguresOfAll& all, uint64_t round) {
  pb::Figures total;
  uint64_t first_hash = 0;
  for (int rank = 0; rank < all.by_rank_size(); ++rank) {
    pb::Figures one;
    if (!one.ParseFromString(all.by_rank(rank)))
      return Status(Code::kMismatch, Cat("figures of worker ", rank, " do not parse"));
    if (rank == 0) first_hash = one.parameters_hash();
    if (one.parameters_hash() != first_hash) {
      return Status(Code::kMismatch,
                    Cat("the replicas differ after round ", round - 1, ": worker 0 has hash ",
                        Hex(first_hash), ", worker ", rank, " has ", Hex(one.parameters_hash())));
    }
    total.set_train_loss(total.train_loss() + one.train_loss());
    total.set_train_samples(total.train_samples() + one.train_samples());
    total.set_test_loss(total.test_loss() + one.test_loss());
    total.set_test_correct(total.test_correct() + one.test_correct());
    total.set_test_samples(total.test_samples() + one.test_samples());
  }
  total.set_parameters_hash(p_.replica.Hash());
  if (total.test_samples() > 0) {
    LOG(INFO) << "after round " << round - 1 << ": test accuracy "
              << static_cast<double>(total.test_correct()) /
                     static_cast<double>(total.test_samples())
              << " of " << total.test_samples() << ", test loss "
              << total.test_loss() / static_cast<double>(total.test_samples())
              << ", replicas agree on hash " << Hex(first_hash);
    figures_ = total;
  }
  return Ok();
}

}  // namespace tern::train
