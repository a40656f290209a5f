// Lookahead (Zhang et al. 2019, arXiv 1907.08610, algorithm 1): every k steps the slow weights phi
// move towards the weights theta, and theta is set to them:
//
//   phi   = phi + alpha (theta - phi)
//   theta = phi
//
// k is `every_steps`. alpha is 1 - d with the decay d = decay (t / T)^decay_power in step t of T;
// the airbench94 recipe (arXiv 2404.00498) has decay_power 3. phi are the first weights at first.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/job.pb.h"

namespace tern::update {

class Lookahead {
 public:
  // `settings`: null for a job without Lookahead, where it is never due. `steps`: T.
  Lookahead(const pb::Lookahead* settings, uint64_t steps);
  // Returns alpha if Lookahead is due after this step (from 1), else nullopt.
  std::optional<float> OneMinusDecay(uint64_t step) const;

 private:
  std::optional<pb::Lookahead> settings_;
  const double num_steps_;
};

}  // namespace tern::update
