#include <string>

#include "models/builders.h"
#include "models/net_builder.h"

namespace tern::models {

// Layers are named as in torchvision, where the index of a convolution counts all layers of
// `features`. The optional batch norms, which torchvision's AlexNet does not have, are norm1 to
// norm5.
pb::NetDef AlexNet(const BuildRequest& request) {
  NetBuilder net("alexnet");
  net.InitDense(NormalStd(0.005f));
  int num_convs = 0;
  const auto add_conv = [&](int feature_index, const ConvShape& shape) {
    const std::string number_text = std::to_string(++num_convs);
    net.InitConvs(He(false));
    net.Conv("features." + std::to_string(feature_index), shape);
    if (request.model.batch_norm()) net.BatchNorm("norm" + number_text);
    net.Relu("relu" + number_text);
  };
  const PoolShape pool{.kernel = 3, .stride = 2};
  add_conv(0, {.outputs = 64, .kernel = 11, .stride = 4, .pad = 2});
  net.MaxPool("pool1", pool);
  add_conv(3, {.outputs = 192, .kernel = 5, .pad = 2});
  net.MaxPool("pool2", pool);
  add_conv(6, {.outputs = 384, .kernel = 3, .pad = 1});
  add_conv(8, {.outputs = 256, .kernel = 3, .pad = 1});
  add_conv(10, {.outputs = 256, .kernel = 3, .pad = 1});
  net.MaxPool("pool5", pool);
  net.Dropout("drop6", request.dropout(0.5));
  net.Dense("classifier.1", 4096);
  net.Relu("relu6");
  net.Dropout("drop7", request.dropout(0.5));
  net.Dense("classifier.4", 4096);
  net.Relu("relu7");
  net.InitDense(NormalStd(0.01f));
  net.Dense("classifier.6", request.classes);
  return net.Finish();
}

}  // namespace tern::models
