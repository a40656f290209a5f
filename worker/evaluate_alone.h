// A job's test set on given weights, with no server and no training.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/setup/setup.h"

namespace tern::worker {

// Reads the test set as worker `rank` of the job would, and `weights`, a safetensors file with
// every parameter and statistic of the job's model in its shape (others are let be). Prints a line
// with top-1, top-5 and the loss; where the job wants it, writes output_dir/confusion.csv. kBadData
// says what is wrong with either; kCannotWrite as WriteConfusion.
Status EvaluateAlone(const setup::Setup& setup, uint32_t rank, const std::string& weights);

}  // namespace tern::worker
