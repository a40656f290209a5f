// Of a build without CUDA.
#include "worker/engine/backends.h"

namespace tern::engine {

Result<std::unique_ptr<Net>> MakeCudaNet(const pb::NetDef&, const Net::Options&,
                                         const Net::Arenas&) {
  return Status(
      Code::kBadJob,
      "workers.device is cuda, but this program was built without CUDA: set it to cpu, or "
      "build with the toolkit there (cmake --preset cuda)");
}

}  // namespace tern::engine
