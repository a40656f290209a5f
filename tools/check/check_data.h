// The part of `tern check` that reads the data.
#pragma once

#include <string>

#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::tools {

// The images of the job, in a line for each split, and a line if ranks have a data.dir of their own
// (workers.overrides); nothing for a client's job. Reads the folder of every rank. kBadData if it
// cannot be read, or does not fit the model; kBadJob if the images are fewer than a batch, or make
// a job too short; kMismatch if ranks have different data, with what differs
// (worker/data/summary.h). The message names the rank unless the data are those of rank 0.
Result<std::string> DescribeData(const setup::Setup& setup);

}  // namespace tern::tools
