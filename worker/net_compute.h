// Computes gradients with the net.
#pragma once

#include <memory>
#include <optional>

#include "common/base/status.h"
#include "setup/setup.h"
#include "worker/batch_compute.h"
#include "worker/data/prefetcher.h"
#include "worker/engine/net.h"

namespace tern::worker {

// The job's settings for this rank. REQUIRES the rank's own job (config::ForRank).
engine::Device DeviceOf(const pb::Job& job);
engine::Precision PrecisionOf(const pb::Train& train);

// The input of a net from a batch, whose images are floats or bytes.
engine::Net::Feed FeedOf(const data::Batch& batch);

// Returns what runs forward and backward: one net per batch size, made on first use. `arenas` must
// outlive it. With `pixels`, batches are bytes if the rank has a GPU, otherwise floats. One thread
// at a time may call it.
Result<std::unique_ptr<BatchCompute>> MakeNetCompute(
    const setup::Setup& setup, uint32_t rank, const engine::Net::Arenas& arenas,
    const std::optional<kernels::PixelRule>& pixels = std::nullopt);
}  // namespace tern::worker
