// The facts about the algorithm of a job, from the algorithm's traits (proto/job.proto,
// AlgorithmTraits) and the keys of its section. Workers, servers, checkpoints and forecasts use
// these facts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "proto/job.pb.h"

namespace tern::algorithm {

// The facts about one job. If train.algorithm names no algorithm, all members but is_central have
// the defaults below.
struct Facts {
  using Pushes = pb::AlgorithmTraits::Pushes;

  // --- Rounds. Without rounds a server does not wait for pushes of all workers; the "round" of a
  // worker then counts the worker's own pushes.

  bool has_rounds = true;
  uint32_t window = 1;                  // how many rounds a worker may have open
  uint64_t period = 1;                  // steps from one exchange of a worker to the next
  bool exchanges_in_next_step = false;  // the exchange takes place in the step after the period
  // Whether the job may end in the middle of a period, whose round then closes early.
  bool may_cut_period_short = false;
  // Rounds per period. If 2, even rounds exchange one part of the model at the end of a period, and
  // odd rounds several parts after such an exchange, if at all.
  uint32_t rounds_a_period = 1;
  // A worker's exchange waits for the answers of the exchange this many exchanges before.
  uint32_t exchanges_ahead = 0;
  uint32_t num_backup_workers = 0;  // a round closes when all but this many workers have pushed
  // By how many steps a worker may be ahead of the slowest worker (ssp). Unset: without limit.
  std::optional<uint64_t> max_steps_ahead;

  // How many steps a pushed quantity is about: those since the last exchange of the same elements.
  uint64_t steps_a_push() const { return period * std::max(1u, num_parts); }

  // The step at whose end a worker holds W(round), the weights after that round. Without rounds:
  // the steps that a worker has done when it sends push number `round`. StepOfRound(0) is 0.
  uint64_t StepOfRound(uint64_t round) const;
  // Returns that step in a job of `steps` steps, which may end in the middle of a period.
  uint64_t StepOfRound(uint64_t round, uint64_t steps) const;
  // The round to which a step (from 1) belongs: the first round that closes at the end of this step
  // or later. If the job ends earlier, the round closes then (may_cut_period_short) or never.
  uint64_t RoundOfStep(uint64_t step) const;
  // The last step up to `step` at whose end a worker holds the weights after a whole round, from
  // which training can go on. Without rounds: `step`.
  uint64_t LastRoundEnd(uint64_t step) const;
  // Whether a round closes at the end of this step of a job of `steps` steps.
  bool EndsRound(uint64_t step, uint64_t steps) const;

  // For jobs without rounds. Every worker pushes to each range of the model on a server.
  // PushesOfJob: how many pushes of all workers one range gets in a job of `steps` steps.
  // StepsOfPushes: the mean number of steps per worker when a range has got `pushes` pushes.
  uint64_t PushesOfJob(uint64_t steps, uint32_t workers) const;
  uint64_t StepsOfPushes(uint64_t pushes, uint32_t workers) const;

  // --- What workers and servers send

  // What a push contains: a gradient, the parameters, or their change since the last
  // synchronization.
  Pushes pushed_quantity = pb::AlgorithmTraits::gradient;
  bool averages_state = false;  // whether workers average the optimizer's state, too
  // Whether codecs may add to a push what the codes of earlier pushes left out.
  bool allows_feedback = true;
  std::string feedback_key;  // the key of `allows_feedback`: "train.ALGORITHM.KEY"; empty: none
  // At the end of each period, workers exchange one of this many parts of the model; 0: all of it.
  uint32_t num_parts = 0;
  std::string parts_key;  // the key of `num_parts`: "train.ALGORITHM.KEY"

  // --- Who holds the weights, and how they are updated

  bool is_central = false;     // servers hold the parameters; else the workers do
  bool has_own_point = false;  // each worker computes gradients at weights of its own, not at W
  // The rate of elastic averaging between the servers' and the workers' weights.
  std::optional<double> elastic_rate;
  const pb::LocalUpdater* local_updater = nullptr;  // settings of the local update; null: none
  std::string local_updater_key;  // the key of `local_updater`: "train.ALGORITHM.KEY"
  // Settings of the optimizer that changes W at a synchronization; null: the job has none.
  const pb::OuterOptimizer* outer_optimizer = nullptr;
  std::string outer_optimizer_key;           // the key of `outer_optimizer`: "train.ALGORITHM.KEY"
  const pb::Lookahead* lookahead = nullptr;  // settings of Lookahead; null: the job has none
  std::string lookahead_key;                 // the key of `lookahead`: "train.ALGORITHM.KEY"
  // Whether who holds the weights has a moving average of them, which is evaluated: that of
  // evaluation.ema_decay, or that of Lookahead.
  bool has_average = false;
  // Whether a worker may apply answers as they arrive, one bucket (range of the model) at a time.
  // Between two buckets the parameters are not the weights W of any round, so no worker may join
  // meanwhile and ask for W, as it may if on_worker_loss is wait or shrink.
  bool applies_by_bucket = false;
  // Whether applies_by_bucket is true and the next step's forward pass applies the answers.
  bool applies_in_forward = false;
  bool stays_on_device = false;  // weights that workers hold, and gradients, may stay on their GPUs

  // Whether the workers, not the servers, form the term that the algorithm adds to a gradient. The
  // job may set that (term_on_worker). Else the servers form the term if `values_pushed` is true:
  // every push is the gradient itself, at most rounded (codec::SendsValues), so a server can
  // compute the same term. protocol::WorkersFormTerm answers this for a whole job.
  bool WorkersFormTerm(bool values_pushed) const { return term_on_worker.value_or(!values_pushed); }
  bool has_term = false;               // whether the algorithm adds such a term
  std::optional<bool> term_on_worker;  // the job's setting; unset: the answer depends on the codecs
};

// REQUIRES a job that validation has accepted. `job` must outlive the result: `local_updater`,
// `outer_optimizer` and `lookahead` point into it.
Facts FactsOf(const pb::Job& job);
Facts FactsOf(pb::Job&& job) = delete;

}  // namespace tern::algorithm
