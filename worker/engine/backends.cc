// Chooses the implementation of a net by its device.
#include "worker/engine/backends.h"

namespace tern::engine {

Result<std::unique_ptr<Net>> Net::Make(const pb::NetDef& def, const Options& options,
                                       const Arenas& arenas) {
  switch (options.device) {
    case Device::kCuda:
      return MakeCudaNet(def, options, arenas);
    case Device::kCpu:
      break;
  }
  return MakeCpuNet(def, options, arenas);
}

}  // namespace tern::engine
