// A descriptor of cuDNN's backend API (a graph, an engine, a plan, ...), and the check of the
// results of cuDNN's calls. Internal to the engine.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"

namespace tern::engine::cuda::cudnn {

// Returns Ok if `status`, a cudnnStatus_t, is a success; else kPeerLost with the name `call` and
// cuDNN's message.
Status CheckCudnn(int status, const std::string& call);

struct DescriptorDeleter {
  void operator()(void* descriptor) const;
};
using Descriptor = std::unique_ptr<void, DescriptorDeleter>;

}  // namespace tern::engine::cuda::cudnn
