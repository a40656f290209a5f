// The engine's backends: one Net class per device. Internal to the engine. The table is in
// backends.cc.
#pragma once

#include <memory>

#include "worker/engine/net.h"

namespace tern::engine {

Result<std::unique_ptr<Net>> MakeCpuNet(const pb::NetDef& def, const Net::Options& options,
                                        const Net::Arenas& arenas);
// kBadJob if this build has no CUDA (no_cuda.cc) or there is no GPU.
Result<std::unique_ptr<Net>> MakeCudaNet(const pb::NetDef& def, const Net::Options& options,
                                         const Net::Arenas& arenas);

}  // namespace tern::engine
