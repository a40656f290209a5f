// Writes the results of a job: the final weights, the names of the classes if the data has any and,
// if the job asks for it, the confusion matrix.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "client/train/figures.h"
#include "client/train/replica_state.h"
#include "common/base/status.h"

namespace tern::client {

// Sends this worker's figures to the servers, and waits until `figures` of WriteResults has their
// answer. `purpose`: kWriteFirst or kWriteElsewhere.
using FiguresSender = std::function<Status(uint32_t purpose, const pb::Figures& own_figures)>;

// All workers call it after the last evaluation. The worker with the lowest rank writes the results
// to its `output_dir`. If it cannot, or is lost, all others write them, each to its own; the
// newest evaluation in `figures` then says who has. Returns once some worker has written them;
// kCannotWrite if none could. `steps`: how many of the job's steps the weights include.
Status WriteResults(const std::string& output_dir, uint64_t steps, FiguresExchange* figures,
                    ReplicaState* state, const FiguresSender& send);

}  // namespace tern::client
