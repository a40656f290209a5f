#include <string>
#include <vector>

#include "models/builders.h"
#include "models/net_builder.h"

namespace tern::models {

namespace {

// The number of output channels of each convolution of an inception module: 1x1, 3x3_reduce, 3x3,
// 5x5_reduce, 5x5, and the 1x1 after the pool.
struct InceptionModule {
  const char* name;
  uint32_t conv_1x1, reduce_3x3, conv_3x3, reduce_5x5, conv_5x5, pool_projection;
};

// Adds a convolution, its batch norm if the job wants one, and its ReLU.
struct ConvAdder {
  NetBuilder* net;
  bool has_batch_norm;

  void operator()(const std::string& name, const ConvShape& shape) const {
    net->Conv(name, shape);
    if (has_batch_norm) net->BatchNorm(name + "_bn");
    net->Relu(name + "_relu");
  }
};

void AddModule(const InceptionModule& inception, const ConvAdder& add_conv) {
  NetBuilder* net = add_conv.net;
  const std::string input = net->last_output(),
                    prefix = std::string("inception_") + inception.name + "/";
  std::vector<std::string> branches;
  add_conv(prefix + "1x1", {.outputs = inception.conv_1x1, .kernel = 1});
  branches.push_back(net->last_output());
  net->SetNextInput(input);
  add_conv(prefix + "3x3_reduce", {.outputs = inception.reduce_3x3, .kernel = 1});
  add_conv(prefix + "3x3", {.outputs = inception.conv_3x3, .kernel = 3, .pad = 1});
  branches.push_back(net->last_output());
  net->SetNextInput(input);
  add_conv(prefix + "5x5_reduce", {.outputs = inception.reduce_5x5, .kernel = 1});
  add_conv(prefix + "5x5", {.outputs = inception.conv_5x5, .kernel = 5, .pad = 2});
  branches.push_back(net->last_output());
  net->SetNextInput(input);
  net->MaxPool(prefix + "pool", {.kernel = 3, .stride = 1, .pad = 1});
  add_conv(prefix + "pool_proj", {.outputs = inception.pool_projection, .kernel = 1});
  branches.push_back(net->last_output());
  net->Concat(prefix + "output", branches);
}

}  // namespace

pb::NetDef GoogLeNet(const BuildRequest& request) {
  NetBuilder net("googlenet");
  net.InitConvs(Xavier(), Constant(0.2f));
  const PoolShape halving_pool{.kernel = 3, .stride = 2, .has_same_padding = true};
  const bool has_batch_norm = request.model.batch_norm();
  const ConvAdder add_conv{&net, has_batch_norm};
  const auto add_norm = [&](const char* name) {
    if (!has_batch_norm) net.Lrn(name, 5, 1e-4f, 0.75f, 1);
  };
  add_conv("conv1/7x7_s2", {.outputs = 64, .kernel = 7, .stride = 2, .pad = 3});
  net.MaxPool("pool1/3x3_s2", halving_pool);
  add_norm("pool1/norm1");
  add_conv("conv2/3x3_reduce", {.outputs = 64, .kernel = 1});
  add_conv("conv2/3x3", {.outputs = 192, .kernel = 3, .pad = 1});
  add_norm("conv2/norm2");
  net.MaxPool("pool2/3x3_s2", halving_pool);
  AddModule({"3a", 64, 96, 128, 16, 32, 32}, add_conv);
  AddModule({"3b", 128, 128, 192, 32, 96, 64}, add_conv);
  net.MaxPool("pool3/3x3_s2", halving_pool);
  AddModule({"4a", 192, 96, 208, 16, 48, 64}, add_conv);
  AddModule({"4b", 160, 112, 224, 24, 64, 64}, add_conv);
  AddModule({"4c", 128, 128, 256, 24, 64, 64}, add_conv);
  AddModule({"4d", 112, 144, 288, 32, 64, 64}, add_conv);
  AddModule({"4e", 256, 160, 320, 32, 128, 128}, add_conv);
  net.MaxPool("pool4/3x3_s2", halving_pool);
  AddModule({"5a", 256, 160, 320, 32, 128, 128}, add_conv);
  AddModule({"5b", 384, 192, 384, 48, 128, 128}, add_conv);
  net.GlobalAvgPool("pool5");
  net.Dropout("pool5/drop", request.dropout(0.4));
  net.Dense("classifier", request.classes);
  return net.Finish();
}

}  // namespace tern::models
