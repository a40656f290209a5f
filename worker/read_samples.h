// Reads a split of a job's data for its model.
#pragma once

#include <memory>

#include "common/base/status.h"
#include "proto/job.pb.h"
#include "setup/setup.h"
#include "worker/data/samples.h"

namespace tern::worker {

// `job` is the setup's job as the rank sees it. Logs the progress of a long scan, and the result.
// kBadData names what cannot be read, or which images or labels the model does not accept.
Result<std::unique_ptr<data::Samples>> ReadSamples(const setup::Setup& setup, const pb::Job& job,
                                                   data::Split split);

}  // namespace tern::worker
