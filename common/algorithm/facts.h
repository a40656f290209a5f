// The facts about the algorithm of a job, from the algorithm's traits (proto/job.proto,
// AlgorithmTraits) and the keys of its section. Workers, servers, checkpoints and forecasts use
// these facts; only an algorithm's own files ask for its name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proto/job.pb.h"

namespace tern::algorithm {

// REQUIRES a job that validation has accepted. If train.algorithm names no algorithm, all members
// have the defaults below.
struct Facts {
  using Pushes = pb::AlgorithmTraits::Pushes;

  // --- Rounds. Without rounds a server applies every push at once; the "round" of a worker then
  // counts its own pushes.

  bool rounds = true;
  uint32_t window = 1;            // rounds that a worker may have open
  uint64_t period = 1;            // steps from one exchange of a worker to the next
  bool in_next_step = false;      // the exchange takes place in the step after its period
  bool cut_short = false;         // the last step of the job ends its period early
  uint32_t rounds_a_step = 1;     // rounds per step; if above 1, period is 1
  uint32_t ahead = 0;             // a step waits for the round this many before its own
  uint32_t backup = 0;            // backup workers: a round closes without this many workers
  std::optional<uint64_t> bound;  // steps that a worker may be ahead of the slowest worker

  // The step at whose end a worker holds W(round), the weights after that round. Without rounds:
  // the steps that a worker has done when it sends that push. StepOfRound(0) is 0.
  uint64_t StepOfRound(uint64_t round) const;
  // The same in a job of `steps` steps, which may end in the middle of a period.
  uint64_t StepOfRound(uint64_t round, uint64_t steps) const;
  // The round to which a step (from 1) belongs: the first one that closes at the end of the step or
  // later. If the job ends before that, the round never closes.
  uint64_t RoundOfStep(uint64_t step) const;
  // Whether a round closes at the end of this step of a job of `steps` steps.
  bool EndsRound(uint64_t step, uint64_t steps) const;

  // Without rounds, for one range of the model on a server, to which every worker pushes: the
  // number of pushes of all workers in a job of `steps` steps; and the mean number of steps per
  // worker after `pushes` such pushes.
  uint64_t PushesOfJob(uint64_t steps, uint32_t workers) const;
  uint64_t StepsOfPushes(uint64_t pushes, uint32_t workers) const;

  // --- What travels

  Pushes pushes = pb::AlgorithmTraits::gradient;
  bool averages_state = false;  // the optimizer's state travels with the parameters
  uint32_t parts = 0;           // the model is exchanged in this many parts, one per step; 0: whole
  std::string parts_key;        // the key of `parts`: "train.ALGORITHM.KEY"

  // --- Who holds what, and who does what with it

  bool central = false;           // servers hold the parameters; else the workers do
  bool own_point = false;         // workers compute gradients at weights of their own, not at W
  std::optional<double> elastic;  // elastic averaging rate between servers' and workers' weights
  const pb::LocalUpdater* local = nullptr;  // settings of the local update; null: none
  std::string local_key;                    // the key of `local`: "train.ALGORITHM.KEY"
  // Answers may be applied bucket by bucket as they arrive. Between two buckets the parameters are
  // not W of any round, so no worker may join meanwhile and ask for W (on_worker_loss: wait,
  // shrink).
  bool by_bucket = false;
  bool applied_in_forward = false;  // by_bucket, and during the forward of the next step
  bool stays_on_device = false;     // localized weights and gradients may stay on a worker's GPU

  // Whether the workers, not the servers, form the term that the algorithm adds to a gradient. The
  // job may say so (term_on_worker). Otherwise the servers form it if `values_pushed`: every push
  // is the gradient itself, at most rounded (Codec::SendsValues), so a server can compute the same
  // term. protocol::WorkersFormTerm answers this for a whole job.
  bool WorkersFormTerm(bool values_pushed) const { return term_on_worker.value_or(!values_pushed); }
  std::optional<bool> term_on_worker;  // what the job says; empty: it depends on the codecs
};

// `job` must outlive the result, because `local` points into it.
Facts FactsOf(const pb::Job& job);
Facts FactsOf(pb::Job&& job) = delete;

}  // namespace tern::algorithm
