// In a build without CUDA, replaces the other .cc files of this folder.
#include "worker/device/device.h"
#include "worker/engine/backends.h"

namespace tern::engine {

Result<std::unique_ptr<Net>> MakeCudaNet(const pb::NetDef&, const Net::Options&,
                                         const Net::Arenas&) {
  return device::CheckDevice();
}

std::vector<std::string> CudaLibraries() { return {"without CUDA"}; }

}  // namespace tern::engine
