// Measures a Profile on this machine, in about 20 seconds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "tools/forecast/profile.h"

namespace tern::tools {

// A timed step: forward and backward of this many samples.
struct TimedStep {
  uint32_t samples = 0;
  double seconds = 0;
};
// A step of b samples takes fixed_s + b * sample_s seconds.
struct ComputeFit {
  double fixed_s = 0, sample_s = 0;
  std::string warning;  // A sentence if the two steps contradict each other; else empty.
};
// Fits two steps; REQUIRES full.samples > half.samples. If the longer step took no more time, other
// processes have disturbed them: the fit is then proportional to `full`, with a warning.
ComputeFit FitCompute(const TimedStep& full, const TimedStep& half);

// Returns the seconds of forward and backward of a worker's batch on this machine, with random
// images; measures for at most 3 seconds, or 4 steps if they take longer. REQUIRES that worker
// 0 computes on a CPU, or waits (train.compute).
Result<double> MeasureStep(const setup::Setup& setup);

// Measures forward, backward and update of the model of `setup`, a message, and the codecs of all
// `variants`, which are setups of the same job with other codecs or algorithms. A client's job is
// taken to compute `client_compute_s` seconds a step, and to update in no time. Calls `warn` with a
// sentence if the machine was too busy to measure well.
Result<Profile> MeasureProfile(const setup::Setup& setup,
                               const std::vector<const setup::Setup*>& variants,
                               double client_compute_s,
                               const std::function<void(const std::string&)>& warn);

}  // namespace tern::tools
