// The engine's backends: a net of each device. Internal to the engine; backends.cc has the table.
#pragma once

#include <memory>

#include "worker/engine/net.h"

namespace tern::engine {

Result<std::unique_ptr<Net>> MakeCpuNet(const pb::NetDef& def, const Net::Options& options,
                                        const Net::Arenas& arenas);
// Built without CUDA (no_cuda.cc) or where there is no GPU: kBadJob says so.
Result<std::unique_ptr<Net>> MakeCudaNet(const pb::NetDef& def, const Net::Options& options,
                                         const Net::Arenas& arenas);

}  // namespace tern::engine
