// Computes the loss and gradient of batches by running the neural net, on the CPU or a GPU.
#pragma once

#include <memory>
#include <optional>

#include "common/base/status.h"
#include "setup/setup.h"
#include "worker/batch_compute.h"
#include "worker/data/prefetcher.h"
#include "worker/engine/net.h"

namespace tern::worker {

// DeviceOf returns the device of one rank. REQUIRES the job with that rank's overrides
// (config::JobForRank). PrecisionOf returns the precision, which is the same for all ranks.
engine::Device DeviceOf(const pb::Job& job);
engine::Precision PrecisionOf(const pb::Train& train);

// Returns the batch as a net's input, which refers to the batch's memory.
engine::Net::Feed FeedOf(const data::Batch& batch);

// Returns an object that runs forward and backward passes, with one net for each batch size. On a
// GPU those for all sizes of train.batch_growth are planned here. On a CPU a net is planned on
// first use, and the one for another size is freed before. `arenas` must outlive the object. If the
// rank computes on a GPU and `pixels` is set, Forward takes images as bytes, which the GPU converts
// by the rule `pixels`; otherwise as floats. One thread at a time may use the object.
Result<std::unique_ptr<BatchCompute>> MakeNetCompute(
    const setup::Setup& setup, uint32_t rank, const engine::Net::Arenas& arenas,
    const std::optional<kernels::PixelRule>& pixels = std::nullopt);
}  // namespace tern::worker
