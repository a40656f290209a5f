#include <string>
#include <vector>

#include "models/builders.h"
#include "models/net_builder.h"

namespace tern::models {

namespace {

// The number of output channels of each convolution of an inception module, as in the paper's
// table: 1x1; 3x3 with its reduction; two 3x3 in sequence ("double") with their reduction; 1x1
// after the pool. If conv_1x1 and pool_projection are 0, the module halves height and width: its
// last convolutions and its pool have stride 2.
struct InceptionModule {
  const char* name;
  uint32_t conv_1x1, reduce_3x3, conv_3x3, reduce_double_3x3, double_3x3, pool_projection;
  bool has_average_pool;  // true: an average pool; false: a max pool
};

void AddConvNormRelu(const std::string& name, const ConvShape& shape, NetBuilder* net) {
  net->Conv(name, shape);
  net->BatchNorm(name + "_bn");
  net->Relu(name + "_relu");
}

void AddModule(const InceptionModule& inception, NetBuilder* net) {
  const std::string input = net->last_output(),
                    prefix = std::string("inception_") + inception.name + "_";
  const uint32_t stride = inception.conv_1x1 == 0 ? 2 : 1;
  std::vector<std::string> branches;
  if (inception.conv_1x1 > 0) {
    AddConvNormRelu(prefix + "1x1", {.outputs = inception.conv_1x1, .kernel = 1}, net);
    branches.push_back(net->last_output());
    net->SetNextInput(input);
  }
  AddConvNormRelu(prefix + "3x3_reduce", {.outputs = inception.reduce_3x3, .kernel = 1}, net);
  AddConvNormRelu(prefix + "3x3",
                  {.outputs = inception.conv_3x3, .kernel = 3, .stride = stride, .pad = 1}, net);
  branches.push_back(net->last_output());
  net->SetNextInput(input);
  AddConvNormRelu(prefix + "double_3x3_reduce",
                  {.outputs = inception.reduce_double_3x3, .kernel = 1}, net);
  AddConvNormRelu(prefix + "double_3x3_1", {.outputs = inception.double_3x3, .kernel = 3, .pad = 1},
                  net);
  AddConvNormRelu(prefix + "double_3x3_2",
                  {.outputs = inception.double_3x3, .kernel = 3, .stride = stride, .pad = 1}, net);
  branches.push_back(net->last_output());
  net->SetNextInput(input);
  if (inception.has_average_pool) {
    net->AvgPool(prefix + "pool", {.kernel = 3, .stride = stride, .pad = 1});
  } else if (stride == 2) {
    net->MaxPool(prefix + "pool", {.kernel = 3, .stride = 2, .has_same_padding = true});
  } else {
    net->MaxPool(prefix + "pool", {.kernel = 3, .stride = 1, .pad = 1});
  }
  if (inception.pool_projection > 0)
    AddConvNormRelu(prefix + "pool_proj", {.outputs = inception.pool_projection, .kernel = 1}, net);
  branches.push_back(net->last_output());
  net->Concat(prefix + "output", branches);
}

}  // namespace

pb::NetDef InceptionBn(const BuildRequest& request) {
  NetBuilder net("inception_bn");
  net.InitConvs(He(false));
  const PoolShape halving_pool{.kernel = 3, .stride = 2, .has_same_padding = true};
  AddConvNormRelu("conv1_7x7_s2", {.outputs = 64, .kernel = 7, .stride = 2, .pad = 3}, &net);
  net.MaxPool("pool1_3x3_s2", halving_pool);
  AddConvNormRelu("conv2_3x3_reduce", {.outputs = 64, .kernel = 1}, &net);
  AddConvNormRelu("conv2_3x3", {.outputs = 192, .kernel = 3, .pad = 1}, &net);
  net.MaxPool("pool2_3x3_s2", halving_pool);
  AddModule({"3a", 64, 64, 64, 64, 96, 32, true}, &net);
  AddModule({"3b", 64, 64, 96, 64, 96, 64, true}, &net);
  AddModule({"3c", 0, 128, 160, 64, 96, 0, false}, &net);
  AddModule({"4a", 224, 64, 96, 96, 128, 128, true}, &net);
  AddModule({"4b", 192, 96, 128, 96, 128, 128, true}, &net);
  AddModule({"4c", 160, 128, 160, 128, 160, 128, true}, &net);
  AddModule({"4d", 96, 128, 192, 160, 192, 128, true}, &net);
  AddModule({"4e", 0, 128, 192, 192, 256, 0, false}, &net);
  AddModule({"5a", 352, 192, 320, 160, 224, 128, true}, &net);
  AddModule({"5b", 352, 192, 320, 192, 224, 128, false}, &net);
  net.GlobalAvgPool("global_pool");
  net.Dense("fc", request.classes);
  return net.Finish();
}

}  // namespace tern::models
