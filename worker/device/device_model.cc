#include "worker/device/device_model.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tern::device {

namespace {

struct Known {
  std::string_view name;
  bool keeps;  // something of a tensor: not by error feedback that a job adds
};
constexpr std::array<Known, 7> kKnown = {{{"ternary", false},
                                          {"qsgd", false},
                                          {"onebit", true},
                                          {"topk", true},
                                          {"fp32", false},
                                          {"fp16", false},
                                          {"bf16", false}}};

}  // namespace

bool DeviceModel::Codes(const codec::Codec& codec) {
  return std::any_of(kKnown.begin(), kKnown.end(), [&](const Known& known) {
    return codec.name() == known.name && known.keeps == (codec.NewMemory(1) != nullptr);
  });
}

}  // namespace tern::device
