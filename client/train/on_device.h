// Which jobs' models stay on a worker's GPU (worker/device/device_model.h), and their layout there.
// Other algorithms change weights and gradients on the CPU, so they travel every step.
#pragma once

#include "setup/setup.h"
#include "worker/device/device_model.h"

namespace tern::client {

// True if only the exchange and local updates use gradients, and only the optimizer uses weights:
// ssgd and odsgd with localized parameters, and one codec that a GPU supports
// (device::DeviceModel::Codes). `own`: the rank's own job (config::ForRank).
bool StaysOnDevice(const setup::Setup& setup, const pb::Job& own);

// Chunks are numbered over all buckets.
device::DeviceModel::Layout LayoutOf(const setup::Setup& setup, size_t slots);
uint32_t ChunkIndex(const protocol::ExchangePlan& plan, uint32_t bucket, uint32_t chunk);

}  // namespace tern::client
