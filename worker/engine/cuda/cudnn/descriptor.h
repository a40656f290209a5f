// A descriptor of cuDNN's backend, and the check of cuDNN's calls. Internal to the engine.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"

namespace tern::engine::cuda::cudnn {

// kPeerLost, "CALL: cuDNN's message", unless the cudnnStatus_t is a success.
Status Check(int status, const std::string& call);

struct Destroy {
  void operator()(void* descriptor) const;
};
using Descriptor = std::unique_ptr<void, Destroy>;

}  // namespace tern::engine::cuda::cudnn
