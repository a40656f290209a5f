// How a GPU divides the sums of the columns of an array [rows, channels] among thread blocks
// (column_sums.cuh). The numbers depend only on the shape of the array, so that the order of
// additions does, too.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/device/host_device.h"

namespace tern::kernels {

// Each thread block adds one share of the rows of one group of neighbouring channels.
struct ColumnShares {
  uint32_t group_channels = 1;  // channels per group, a power of 2; the last group may have fewer
  uint32_t num_groups = 0;
  uint32_t num_shares = 0;
};
constexpr ColumnShares ColumnSharesOf(uint64_t rows, uint32_t channels) {
  // All blocks fit on a large GPU at once, two per multiprocessor. The last block of a group adds
  // the results of all its blocks: an array of many channels has larger groups because fewer blocks
  // process each group.
  constexpr uint32_t kMaxBlocks = 256;
  constexpr uint32_t kManyChannels = 256, kLargeGroup = 64, kSmallGroup = 32;
  // A block adds at least as many elements as its threads load at once: fewer blocks leave less to
  // add to the last one. Threads load eight times as much if packs have several channels.
  const uint32_t min_elements = channels % 8 == 0 ? 16384 : 4096;
  ColumnShares shares;
  shares.group_channels = std::min(std::bit_ceil(std::max(channels, 1u)),
                                   channels >= kManyChannels ? kLargeGroup : kSmallGroup);
  shares.num_groups = (channels + shares.group_channels - 1) / shares.group_channels;
  const uint64_t max_shares = std::max(kMaxBlocks / std::max(shares.num_groups, 1u), 1u);
  shares.num_shares = static_cast<uint32_t>(
      std::clamp<uint64_t>(rows * shares.group_channels / min_elements, 1, max_shares));
  return shares;
}

// Device memory for the sums of columns.
struct ColumnWorkspace {
  double* partial_sums = nullptr;  // PartialSumsOf(rows, channels) numbers
  // CountersOf(channels) counters, which must be zero before the first launch, and are zero after
  // each launch. Launches that may run at the same time must not share counters.
  uint32_t* counters = nullptr;
};
constexpr uint64_t PartialSumsOf(uint64_t rows, uint32_t channels) {
  return uint64_t{2} * channels * ColumnSharesOf(rows, channels).num_shares;
}
// Enough counters also for any smaller number of channels.
constexpr uint32_t CountersOf(uint32_t channels) { return channels / 32 + 1; }
// The bytes of both arrays.
constexpr size_t ColumnWorkspaceBytes(uint64_t rows, uint32_t channels) {
  return PartialSumsOf(rows, channels) * sizeof(double) + CountersOf(channels) * sizeof(uint32_t);
}

}  // namespace tern::kernels
