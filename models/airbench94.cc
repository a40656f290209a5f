#include <string>

#include "models/builders.h"
#include "models/net_builder.h"

namespace tern::models {
namespace {

// Two convolutions, each with a batch norm and GELU; a pool after the first halves the image.
void AddGroup(const std::string& name, uint32_t outputs, NetBuilder* net) {
  const ConvShape conv{.outputs = outputs, .kernel = 3, .pad = 1, .has_bias = false};
  const auto add_norm = [&](const std::string& number) {
    net->BatchNorm(name + ".norm" + number, /*epsilon=*/1e-12f, /*momentum=*/0.4f);
    net->Gelu(name + ".gelu" + number);
  };
  net->Conv(name + ".conv1", conv);
  net->MaxPool(name + ".pool", {.kernel = 2, .stride = 2});
  add_norm("1");
  net->Conv(name + ".conv2", conv);
  add_norm("2");
}

}  // namespace

pb::NetDef Airbench94(const BuildRequest& request) {
  constexpr uint32_t kWhitenKernel = 2;
  NetBuilder net("airbench94");
  // As many outputs as a patch has elements, and their negatives. `tern whiten` computes the
  // weights.
  net.Conv("whiten", {.outputs = 2 * kWhitenKernel * kWhitenKernel * request.input.channels(),
                      .kernel = kWhitenKernel});
  net.Gelu("whiten.gelu");
  net.InitConvs(Dirac());
  AddGroup("group1", 64, &net);
  AddGroup("group2", 256, &net);
  AddGroup("group3", 256, &net);
  net.GlobalMaxPool("pool");
  // A dense layer without biases.
  net.InitConvs(NormalStd(0.036f));  // of U(-a, a), a = 1 / sqrt(256)
  net.Conv("head", {.outputs = request.classes, .kernel = 1, .has_bias = false});
  net.Scale("scores", 1 / 9.f);
  return net.Finish(/*label_smoothing=*/0.2f);
}

}  // namespace tern::models
