#include "models/builders.h"
#include "models/net_builder.h"

namespace tern::models {

pb::NetDef CifarNet(const BuildRequest& request) {
  NetBuilder net("cifarnet");
  const auto add_norm = [&](const char* name) { net.Lrn(name, 9, 0.001f, 0.75f, 1); };
  const PoolShape pool{.kernel = 3, .stride = 2, .has_same_padding = true};
  const ConvShape conv{.outputs = 64, .kernel = 5, .pad = 2};
  net.InitConvs(TruncatedNormalStd(0.05f));
  net.Conv("conv1", conv);
  net.Relu("relu1");
  net.MaxPool("pool1", pool);
  add_norm("norm1");
  net.InitConvs(TruncatedNormalStd(0.05f), Constant(0.1f));
  net.Conv("conv2", conv);
  net.Relu("relu2");
  add_norm("norm2");
  net.MaxPool("pool2", pool);
  net.InitDense(TruncatedNormalStd(0.04f), Constant(0.1f));
  net.Dense("local3", 384);
  net.Relu("relu3");
  net.Dense("local4", 192);
  net.Relu("relu4");
  net.InitDense(TruncatedNormalStd(1 / 192.f));
  net.Dense("logits", request.classes);
  return net.Finish();
}

}  // namespace tern::models
