// The memory that a server shard takes before its first round, and keeps: a lower bound of what it
// needs. (What messages in transit and open rounds take comes on top: tools/memory.h.)
#pragma once

#include <cstdint>
#include <optional>

#include "setup/setup.h"

namespace tern::setup {

// How many bytes the shard keeps: its part of the weights with the optimizer's state, if servers
// have them, and what codecs keep of earlier sums.
uint64_t KeptBytes(const Setup& setup, uint32_t shard);

// `room`: how many bytes there are (MemoryRoom in common/base/machine_limits.h); nullopt: nobody
// knows. kBadData, with a sentence, if the shard keeps more.
Status CheckKeptBytes(const Setup& setup, uint32_t shard, std::optional<uint64_t> room);

}  // namespace tern::setup
