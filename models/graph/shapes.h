// Derives the shapes of all tensors and the table of parameters from a NetDef. The canonical order
// of the parameters: layers in the order of the NetDef, in a layer the weights before the bias,
// each row-major. An arena is the concatenation of all parameters in this order without gaps. There
// are also arenas of all gradients and of all statistics (running means and variances). Parameters
// that are not trained (frozen) have an arena of their own, in the same order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "models/graph/parameters.h"
#include "models/graph/window.h"
#include "proto/net.pb.h"

namespace tern::models {

// The shape of every named tensor (without the batch), "data" included; and the table of
// parameters. Both functions complete and check the net first. kBadJob if a check fails. `freeze`:
// patterns of the names of parameters that are not trained (freeze.h).
Result<std::map<std::string, ImageDims>> InferShapes(const pb::NetDef& net);
Result<ParameterTable> MakeParameterTable(const pb::NetDef& net,
                                          const std::vector<std::string>& freeze = {});

// The digest of all that server and workers must agree on about the model: input, classes, and the
// layers with their names and all defaults. The digest does not depend on the name of the net.
uint64_t ModelDigest(const pb::NetDef& net);

// Sets an arena to the initial parameters, a pure function of (seed, table): the same bits on every
// worker, machine and compiler (no libm beyond the correctly rounded square root). Each element of
// parameter number i takes 32 random bits r from the counter-based generator with the key (seed,
// stream kInit, tensor i), and u = (r + 0.5) / 2^32. Its value is the quantile of the parameter's
// distribution at u, computed in double and rounded once to float.
void InitParameters(const ParameterTable& table, uint64_t seed, float* arena);
// The same for the arena of frozen parameters.
void InitFrozen(const ParameterTable& table, uint64_t seed, float* arena);
// Sets an arena of statistics to their initial values.
void InitStatistics(const ParameterTable& table, float* arena);

}  // namespace tern::models
