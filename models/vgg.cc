#include <array>
#include <string>

#include "models/builders.h"
#include "models/net_builder.h"

namespace tern::models {

namespace {

// `stages`: the number of 3 x 3 convolutions in each of the five stages. Layers are named as in
// torchvision, which counts every layer of `features`.
pb::NetDef Vgg(const char* name, const std::array<int, 5>& stages, const BuildRequest& request) {
  constexpr uint32_t kOutputs[] = {64, 128, 256, 512, 512};
  NetBuilder net(name);
  net.InitConvs(He(true));
  net.InitDense(NormalStd(0.01f));
  int feature_index = 0;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    for (int i = 0; i < stages[stage]; ++i) {
      net.Conv("features." + std::to_string(feature_index++),
               {.outputs = kOutputs[stage], .kernel = 3, .pad = 1});
      if (request.model.batch_norm()) net.BatchNorm("features." + std::to_string(feature_index++));
      net.Relu("features." + std::to_string(feature_index++));
    }
    net.MaxPool("features." + std::to_string(feature_index++), {.kernel = 2, .stride = 2});
  }
  if (request.has_small_images()) {
    net.Dense("classifier", request.classes);
    return net.Finish();
  }
  for (const int classifier_index : {0, 3}) {
    net.Dense("classifier." + std::to_string(classifier_index), 4096);
    net.Relu("classifier." + std::to_string(classifier_index + 1));
    net.Dropout("classifier." + std::to_string(classifier_index + 2), request.dropout(0.5));
  }
  net.Dense("classifier.6", request.classes);
  return net.Finish();
}

}  // namespace

pb::NetDef VggA(const BuildRequest& request) { return Vgg("vgg_a", {1, 1, 2, 2, 2}, request); }
pb::NetDef Vgg16(const BuildRequest& request) { return Vgg("vgg16", {2, 2, 3, 3, 3}, request); }
pb::NetDef Vgg19(const BuildRequest& request) { return Vgg("vgg19", {2, 2, 4, 4, 4}, request); }

}  // namespace tern::models
