// Evaluates the weights of a file on a job's test set, without servers and without training.
#pragma once

#include <string>

#include "common/base/status.h"
#include "setup/setup.h"

namespace tern::worker {

// Reads the test set as worker `rank` of the job would. Reads the safetensors file `weights_path`,
// which must contain every parameter and batch-norm statistic of the job's model with the right
// shape; other tensors are ignored. Prints a line with top-1, top-5 and the loss. Writes
// output_dir/evaluated_confusion.csv if the job's evaluation.confusion is set; confusion.csv is
// that of the training. kBadData describes what is wrong with the data or the weights; if it is
// that the loss is not finite, the line is printed, but no file written. kCannotWrite if the file
// cannot be written.
Status EvaluateAlone(const setup::Setup& setup, uint32_t rank, const std::string& weights_path);

}  // namespace tern::worker
