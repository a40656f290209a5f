// Of a build without CUDA.
#include "worker/engine/backends.h"
#include "worker/engine/device_model.h"

namespace tern::engine {
namespace {

Status NotBuilt() {
  return Status(
      Code::kBadJob,
      "workers.device is cuda, but this program was built without CUDA: set it to cpu, or "
      "build with the toolkit there (cmake --preset cuda)");
}

}  // namespace

Result<std::unique_ptr<Net>> MakeCudaNet(const pb::NetDef&, const Net::Options&,
                                         const Net::Arenas&) {
  return NotBuilt();
}

Result<std::unique_ptr<DeviceModel>> DeviceModel::Make(const Layout&) { return NotBuilt(); }

}  // namespace tern::engine
