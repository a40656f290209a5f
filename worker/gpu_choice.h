// Which GPU of its host a worker computes on: the one that workers.gpu names, else the one that
// falls to the worker when the workers of a host share its GPUs out. A worker sees that GPU alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "proto/job.pb.h"
#include "setup/environment.h"

namespace tern::worker {

// The GPUs that this process may use, by the names that CUDA_VISIBLE_DEVICES has for them: those
// that this variable lists, else 0, 1, ... for as many as there are files nvidia0, nvidia1, ... in
// `device_folder`. CUDA counts the GPUs that it finds: a container with the file nvidia3 alone has
// GPU 0. Empty if there is neither.
std::vector<std::string> GpusOf(const setup::Environment& environment,
                                const std::string& device_folder = "/dev");

// Returns the one of `gpus` that a worker takes, or "" if `gpus` is empty and none is wanted:
// number `wanted`, else number `place` modulo how many there are. kBadJob if there is no number
// `wanted`.
Result<std::string> ChooseGpu(const std::vector<std::string>& gpus, std::optional<uint32_t> wanted,
                              uint32_t place);

// If the device of `job`, the job with the rank's overrides, is a GPU, chooses one and makes it the
// only one that CUDA sees in this process. A worker's place is its number on the host where the
// launcher says it (setup::LocalRankOf), else its rank. REQUIRES that CUDA has not been called, and
// that this process has one thread.
Status TakeGpu(const pb::Job& job, uint32_t rank);

}  // namespace tern::worker
