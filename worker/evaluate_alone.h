// Evaluates given weights on a job's test set, without servers and training.
#pragma once

#include <string>

#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::worker {

// Reads the test set as worker `rank` of the job would, and `weights`, a safetensors file with
// every parameter and statistic of the job's model in its shape (other tensors are ignored). Prints
// a line with top-1, top-5 and the loss; if the job asks for it, writes output_dir/confusion.csv.
// kBadData describes what is wrong with the data or the weights; kCannotWrite: confusion.csv.
Status EvaluateAlone(const setup::Setup& setup, uint32_t rank, const std::string& weights);

}  // namespace tern::worker
