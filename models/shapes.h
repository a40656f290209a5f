// NetDef -> shapes and the table of parameters; used by server, worker and tools alike. Canonical
// order: layers in NetDef's order, weights before biases, each plain row-major. The arena of all
// parameters is their concatenation without gaps; so is the arena of all gradients, and that of all
// statistics.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
  bool is_bias = false;  // one number per output: a bias, or the scale of a norm
  pb::Init init;
  uint64_t fan_in = 0;   // inputs of one output, for Xavier; 1 for a bias, as in Caffe
  uint64_t fan_out = 0;  // outputs that one input contributes to
};

// State of a layer that is not trained: the running mean and variance of a batch norm.
struct Statistic {
  std::string name;     // LAYER.running_mean, LAYER.running_var
  uint64_t offset = 0;  // in an arena of their own
  uint64_t count = 0;
  float initial = 0;
};

struct ParameterTable {
  std::vector<Parameter> parameters;
  uint64_t total = 0;  // elements
  std::vector<Statistic> statistics;
  uint64_t statistics_total = 0;
};

struct ImageDims {
  uint32_t c = 0, h = 0, w = 0;  // a dense output is {outputs, 1, 1}
};

// Saturates at kMaxElements + 1.
uint64_t Elements(const ImageDims& dims);
uint64_t BoundedProduct(uint64_t a, uint64_t b);  // REQUIRES a, b <= 2^32

// A window along one axis of an image: `kernel` taps, `dilation` elements apart.
struct Window {
  uint32_t kernel = 1, stride = 1, dilation = 1;
  pb::Pad::Kind padding = pb::Pad::valid;
  std::optional<uint32_t> pad = std::nullopt;  // on both sides, instead of `padding`
};
// The window of a completed layer, on an axis of `input` elements.
Window WindowOf(const pb::ConvDef& conv, uint32_t input);
Window WindowOf(const pb::PoolDef& pool, uint32_t input);

// Padding and output size of one axis. `same` pads so that output = ceil(input / stride), the odd
// element at the end. kBadJob if the kernel does not fit or a size is not 1 to 65536.
struct AxisPlan {
  uint32_t output = 0, pad_begin = 0, pad_end = 0;
};
Result<AxisPlan> PlanAxis(uint32_t input, const Window& window);

// The shape of every named tensor (without the batch), "data" included; and the table of
// parameters. Both functions complete and check the net first; kBadJob names the layer.
Result<std::map<std::string, ImageDims>> InferShapes(const pb::NetDef& net);
Result<ParameterTable> MakeParameterTable(const pb::NetDef& net);

// Digest of everything about the model on which peers must agree: input, classes, layers by name
// with every default spelled out. The net's own name is not part of it.
uint64_t ModelDigest(const pb::NetDef& net);

// The initial parameters, a pure function of (seed, table): the same bits on every worker, machine
// and compiler (no libm beyond the correctly rounded square root). Parameter i of the table is
// noise tensor i of stream kInit, round 0, rank 0; element e takes u = (Draw32(e) + 0.5) / 2^32,
// then the quantile of its distribution at u in double, rounded once to float.
void InitParameters(const ParameterTable& table, uint64_t seed, float* arena);
// The initial values of the statistics.
void InitStatistics(const ParameterTable& table, float* arena);

}  // namespace tern::models
