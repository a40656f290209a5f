// What everybody but an algorithm's own files has to know of it: the facts of one job, from the
// traits of its algorithm (proto/job.proto, AlgorithmTraits) and the keys of its section. Workers,
// servers, checkpoints and forecasts ask here, and nowhere for an algorithm's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "proto/job.pb.h"

namespace tern::algorithm {

// Of a job that validation has accepted. Where train.algorithm names none, all members are as here.
struct Facts {
  using Pushes = pb::AlgorithmTraits::Pushes;

  // --- Rounds. Without rounds every push counts at once; a "round" is then the number of a
  // worker's own push.

  bool rounds = true;
  uint32_t window = 1;         // rounds that a worker may have open
  uint64_t period = 1;         // steps of a worker from one exchange to the next
  bool in_next_step = false;   // the exchange is made in the step after its period, not at its end
  bool cut_short = false;      // the job's last step ends a period too
  uint32_t rounds_a_step = 1;  // above 1: period is 1
  uint32_t ahead = 0;          // a step waits for the round that many before its own
  uint32_t backup = 0;         // workers that a round need not wait for
  std::optional<uint64_t> bound;  // steps that a worker may be ahead of the slowest

  // The step at whose end a worker holds W(round), the weights after that round; without rounds,
  // the steps that it has made when it sends that push. 0 of round 0.
  uint64_t StepOfRound(uint64_t round) const;
  // The same in a job of `steps` steps, whose end may cut the last period short.
  uint64_t StepOfRound(uint64_t round, uint64_t steps) const;
  // The round that a step, from 1, belongs to: the first that closes at its end or later. In a job
  // that ends before, that round never closes.
  uint64_t RoundOfStep(uint64_t step) const;
  // Whether a round closes at the end of this step of a job of `steps` steps.
  bool EndsRound(uint64_t step, uint64_t steps) const;

  // Without rounds: pushes of all workers to a cell in a job of that many steps, and the steps of
  // each worker, on average, that such pushes stand for.
  uint64_t PushesOfJob(uint64_t steps, uint32_t workers) const;
  uint64_t StepsOfPushes(uint64_t pushes, uint32_t workers) const;

  // --- What travels

  Pushes pushes = pb::AlgorithmTraits::gradient;
  bool averages_state = false;  // the optimizer's state travels with the parameters
  uint32_t parts = 0;           // the model is cut into these, one a step; 0: it is whole
  std::string parts_key;        // the key that says so, "train.ALGORITHM.KEY"

  // --- Who holds what, and who does what with it

  bool central = false;           // servers hold the parameters, else workers do
  bool own_point = false;         // workers take gradients at weights of their own, not at W
  std::optional<double> elastic;  // servers' and workers' weights move that part towards each other
  const pb::LocalUpdater* local = nullptr;  // the section's, in the job; null: it has none
  std::string local_key;                    // "train.ALGORITHM.KEY"
  // Answers may be applied bucket by bucket while others are on their way. Between two of them the
  // parameters are no W, so nobody may be able to join and ask for it (on_worker_loss: wait,
  // shrink).
  bool by_bucket = false;
  bool applied_in_forward = false;  // by_bucket, and in the forward of the next step
  bool stays_on_device = false;     // localized weights and gradients may stay on a worker's GPU

  // Whether the workers, and not the servers, form the term that the algorithm adds to a gradient.
  // The job may say so; if it does not, servers form it only if `values_pushed`: every push is the
  // gradient itself, rounded at most (Codec::SendsValues), so that a server can form the same term.
  // protocol::WorkersFormTerm asks it of a whole job.
  bool WorkersFormTerm(bool values_pushed) const { return term_on_worker.value_or(!values_pushed); }
  std::optional<bool> term_on_worker;  // what the job says; empty: it leaves it to the codecs
};

// `job` outlives them: `local` points into it.
Facts FactsOf(const pb::Job& job);
Facts FactsOf(pb::Job&& job) = delete;

}  // namespace tern::algorithm
