// Reads the training or test set of a job, and checks that it suits the job's model.
#pragma once

#include <memory>

#include "common/base/status.h"
#include "proto/job.pb.h"
#include "setup/setup.h"
#include "worker/data/samples.h"

namespace tern::worker {

// Reads a set of `job`, which is setup.job with this rank's overrides (config::JobForRank). Logs
// the progress of a scan of many image files, and the number of images at the end. kBadData names
// the file that cannot be read, or says which images or labels do not suit the model.
Result<std::unique_ptr<data::Samples>> ReadSamples(const setup::Setup& setup, const pb::Job& job,
                                                   data::Split split);

// The same for the training set without its augmentation: images are changed as the test set's are.
Result<std::unique_ptr<data::Samples>> ReadPlainTrainingSamples(const setup::Setup& setup,
                                                                const pb::Job& job);

}  // namespace tern::worker
