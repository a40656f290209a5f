#include "worker/engine/libraries.h"

#include <dnnl.hpp>

#include "common/base/text.h"
#include "worker/engine/backends.h"

namespace tern::engine {

std::vector<std::string> ComputeLibraries() {
  const dnnl_version_t* dnnl = dnnl_version();
  std::vector<std::string> libraries = {
      Cat("oneDNN ", dnnl->major, ".", dnnl->minor, ".", dnnl->patch)};
  const std::vector<std::string> cuda_libraries = CudaLibraries();
  libraries.insert(libraries.end(), cuda_libraries.begin(), cuda_libraries.end());
  return libraries;
}

}  // namespace tern::engine
