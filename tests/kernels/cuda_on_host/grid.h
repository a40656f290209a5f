// Runs the blocks of a launch on the simulated GPU, in a random order. Built with the thread
// sanitizer, two host threads run blocks beside each other, so that the sanitizer finds races
// between blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <tuple>

namespace cuda_on_host {

// What CUDA's programming guide allows a launch.
constexpr uint32_t kMaxBlocks = 0x7FFFFFFF, kMaxThreads = 1024;
constexpr size_t kMaxParameterBytes = 4096;

// The bytes of the parameters of a kernel.
template <typename... Parameters>
constexpr size_t ParameterBytes() {
  return sizeof(std::tuple<Parameters...>);
}

// Calls `thread` in each of `num_threads` threads of each of `num_blocks` blocks. Called by
// Device::Run, by one host thread at a time.
void RunGrid(uint32_t num_blocks, uint32_t num_threads, const std::function<void()>& thread);

}  // namespace cuda_on_host
