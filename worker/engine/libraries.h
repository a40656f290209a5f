// The libraries that compute.
#pragma once

#include <string>
#include <vector>

namespace tern::engine {

// Each with its version: "oneDNN 2.6.2", "CUDA 13.0", "cuDNN 91000"; or "without CUDA".
std::vector<std::string> ComputeLibraries();

}  // namespace tern::engine
