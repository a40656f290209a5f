#include <algorithm>
#include <cmath>
#include <string>

#include "models/builders.h"
#include "models/net_builder.h"

namespace tern::models {

pb::NetDef MobileNet(const BuildRequest& request) {
  NetBuilder net("mobilenet");
  net.InitConvs(He(true));
  const auto scaled_width = [&](uint32_t channels) {
    return static_cast<uint32_t>(
        std::max(1.0, std::round(channels * request.model.width_multiplier())));
  };
  const auto add_conv = [&](const std::string& name, const ConvShape& shape) {
    net.Conv(name, shape);
    net.BatchNorm(name + "_bn");
    net.Relu(name + "_relu");
  };
  uint32_t channels = scaled_width(32);
  add_conv("conv0", {.outputs = channels, .kernel = 3, .stride = 2, .pad = 1, .has_bias = false});
  // Outputs and stride of each pair of a depthwise and a pointwise convolution (table 1 of the
  // paper).
  constexpr uint32_t kBlocks[][2] = {{64, 1},  {128, 2},  {128, 1}, {256, 2}, {256, 1},
                                     {512, 2}, {512, 1},  {512, 1}, {512, 1}, {512, 1},
                                     {512, 1}, {1024, 2}, {1024, 1}};
  int num_blocks = 0;
  for (const auto& [outputs, stride] : kBlocks) {
    const std::string number_text = std::to_string(++num_blocks);
    add_conv("depthwise" + number_text, {.outputs = channels,
                                         .kernel = 3,
                                         .stride = stride,
                                         .pad = 1,
                                         .groups = channels,
                                         .has_bias = false});
    channels = scaled_width(outputs);
    add_conv("pointwise" + number_text, {.outputs = channels, .kernel = 1, .has_bias = false});
  }
  net.GlobalAvgPool("pool");
  net.Dense("fc", request.classes);
  return net.Finish();
}

}  // namespace tern::models
