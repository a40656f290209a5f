// In a build without CUDA, replaces the .cc files of this folder that need CUDA.
#include "worker/device/device.h"
#include "worker/device/device_model.h"

namespace tern::device {

Status CheckDevice() {
  return Status(
      Code::kBadJob,
      "workers.device is cuda, but this program was built without CUDA: set it to cpu, or "
      "build with the toolkit there (cmake --preset cuda)");
}

Result<std::unique_ptr<DeviceModel>> DeviceModel::Make(const Layout&) { return CheckDevice(); }

}  // namespace tern::device
