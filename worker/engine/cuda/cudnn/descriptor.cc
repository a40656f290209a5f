#include "worker/engine/cuda/cudnn/descriptor.h"

#include <array>

#include "common/base/text.h"
#include "worker/engine/cuda/cudnn/vendor.h"

namespace tern::engine::cuda::cudnn {

Status CheckCudnn(int status, const std::string& call) {
  if (status == CUDNN_STATUS_SUCCESS) return Ok();
  std::array<char, 512> last_error = {};
  TheCudnn().GetLastErrorString(last_error.data(), last_error.size());
  return Status(Code::kPeerLost,
                Cat(call, ": ", TheCudnn().GetErrorString(static_cast<cudnnStatus_t>(status)), " (",
                    last_error.data(), ")"));
}

void DescriptorDeleter::operator()(void* descriptor) const {
  TheCudnn().BackendDestroyDescriptor(descriptor);
}

}  // namespace tern::engine::cuda::cudnn
