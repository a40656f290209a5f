// Whether the batch norms of a job's network can be trained with the job's batch.
#pragma once

#include "common/base/status.h"
#include "models/graph/parameters.h"
#include "proto/job.pb.h"
#include "proto/net.pb.h"

namespace tern::setup {

// kBadJob if a worker has one sample a step, and a batch norm that is not frozen has images of one
// pixel. A channel has one value then, which is its own mean: the output is the same for all
// images, all gradients below are zero, and the running variances become zero. `net` is complete;
// `table` is its table of parameters. Jobs that do not compute with the network are not checked.
Status CheckBatchNorms(const pb::Job& job, const pb::NetDef& net,
                       const models::ParameterTable& table);

}  // namespace tern::setup
