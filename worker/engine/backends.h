// The engine's backends: the implementations of Net for CPUs and for CUDA GPUs. Net::Make calls one
// of these functions. Internal to the engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/engine/net.h"

namespace tern::engine {

Result<std::unique_ptr<Net>> MakeCpuNet(const pb::NetDef& def, const Net::Options& options,
                                        const Net::Arenas& arenas);
// kBadJob if this build has no CUDA (no_cuda.cc), or if there is no suitable GPU.
Result<std::unique_ptr<Net>> MakeCudaNet(const pb::NetDef& def, const Net::Options& options,
                                         const Net::Arenas& arenas);

// The libraries of MakeCudaNet, each with its version; {"without CUDA"} if this build has none.
std::vector<std::string> CudaLibraries();

}  // namespace tern::engine
