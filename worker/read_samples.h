// A split of a job's data, fit for its model.
#pragma once

#include <memory>

#include "common/base/status.h"
#include "common/setup/setup.h"
#include "proto/job.pb.h"
#include "worker/data/samples.h"

namespace tern::worker {

// `job` is the setup's as the rank sees it. Logs how far a long scan is, and what there is.
// kBadData names what cannot be read, or what of images and labels the model does not take.
Result<std::unique_ptr<data::Samples>> ReadSamples(const setup::Setup& setup, const pb::Job& job,
                                                   data::Split split);

}  // namespace tern::worker
