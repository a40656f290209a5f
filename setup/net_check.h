// Whether a job's network fits the job's batches, and keys that have no effect on this network.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "models/graph/parameters.h"
#include "proto/job.pb.h"
#include "proto/net.pb.h"

namespace tern::setup {

// kBadJob if a tensor has more elements than an engine can index, with a worker's batch of training
// or with that of the evaluation. The message names the key to lower. `net` is complete. Jobs that
// do not compute with the network are not checked.
Status CheckTensorSizes(const pb::Job& job, const pb::NetDef& net);

// One sentence for each key that has no effect: model.dropout if the network has no dropout layer,
// and rules whose tensors are all frozen. `table` is the net's table of parameters.
std::vector<std::string> WarningsOfNet(const pb::Job& job, const pb::NetDef& net,
                                       const models::ParameterTable& table);

}  // namespace tern::setup
