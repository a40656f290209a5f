// NetDef -> shapes and the table of parameters; used by server, worker and tools alike.
// Canonical order: layers in NetDef's order, weights before biases, each plain row-major; the arena
// of all parameters (and that of all gradients) is their concatenation with no gaps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/net.pb.h"

namespace tern::models {

struct Parameter {
  std::string name;             // LAYER.weight, LAYER.bias
  std::vector<uint32_t> shape;  // conv [O, I, KH, KW], dense [O, I], bias [O]
  uint64_t offset = 0;          // in the arena, in elements
  uint64_t count = 0;
  bool is_bias = false;
  pb::Init init;
  uint64_t fan_in = 0;  // inputs of one output, for Xavier; of a bias 1, as Caffe counts
};

struct ParameterTable {
  std::vector<Parameter> parameters;
  uint64_t total = 0;  // elements
};

struct ImageDims {
  uint32_t c = 0, h = 0, w = 0;  // a dense output is {outputs, 1, 1}
};

// Padding and output size of one axis. `same` pads so that output = ceil(input / stride), the odd
// element at the end. kBadJob if the kernel does not fit or a size is not 1 to 65536.
struct AxisPlan {
  uint32_t output = 0, pad_begin = 0, pad_end = 0;
};
Result<AxisPlan> PlanAxis(uint32_t input, uint32_t kernel, uint32_t stride, pb::Pad::Kind padding);

// Shape of every named tensor (without the batch), "data" included. Both functions complete and
// check the net first; kBadJob names the layer.
Result<std::map<std::string, ImageDims>> InferShapes(const pb::NetDef& net);
Result<ParameterTable> MakeParameterTable(const pb::NetDef& net);

// Digest of everything that must agree between peers about the model: input, classes, layers by
// name with every default spelled out. The net's own name is not part of it.
uint64_t ModelDigest(const pb::NetDef& net);

// The initial parameters, a pure function of (seed, table): the same bits on every worker, machine
// and compiler (no libm beyond the correctly rounded square root). Parameter i of the table is
// noise tensor i of stream kInit, round 0, rank 0; element e takes u = (Draw32(e) + 0.5) / 2^32,
// then the quantile of its distribution at u in double, rounded once to float.
void InitParameters(const ParameterTable& table, uint64_t seed, float* arena);

}  // namespace tern::models
