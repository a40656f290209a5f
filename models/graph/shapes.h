// Derives from a NetDef its shapes and the table of its parameters; used by server, worker and
// tools alike. Canonical order: layers in NetDef's order, weights before biases, each plain
// row-major. The arena of all parameters is their concatenation without gaps; likewise the arena of
// all gradients, and that of all statistics.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/base/status.h"
#include "models/graph/parameters.h"
#include "models/graph/window.h"
#include "proto/net.pb.h"

namespace tern::models {

// The shape of every named tensor (without the batch), "data" included; and the table of
// parameters. Both functions complete and check the net first; kBadJob names the layer.
Result<std::map<std::string, ImageDims>> InferShapes(const pb::NetDef& net);
Result<ParameterTable> MakeParameterTable(const pb::NetDef& net);

// Digest of everything about the model on which peers must agree: input, classes, layers by name
// with every default filled in. The net's own name is not part of it.
uint64_t ModelDigest(const pb::NetDef& net);

// The initial parameters, a pure function of (seed, table): the same bits on every worker, machine
// and compiler (no libm beyond the correctly rounded square root). Parameter i of the table is
// noise tensor i of stream kInit, round 0, rank 0; element e takes u = (Draw32(e) + 0.5) / 2^32,
// then the quantile of its distribution at u in double, rounded once to float.
void InitParameters(const ParameterTable& table, uint64_t seed, float* arena);
// The initial values of the statistics.
void InitStatistics(const ParameterTable& table, float* arena);

}  // namespace tern::models
