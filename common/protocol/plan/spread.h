// How a model is spread over the data lanes (sockets with a thread each) of all shards.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tern::protocol {

// The size of chunks, in elements: `limit`, or less if each lane would get few chunks otherwise.
// While a lane sends the sum of one chunk, it receives the next. `elements_of_lane`: how many
// elements a lane gets of what is exchanged at once. `push_bytes`: of an element.
inline uint64_t SpreadLimit(uint64_t limit, uint64_t elements_of_lane, double push_bytes) {
  // How many chunks a lane should have, unless they had fewer elements, or fewer bytes.
  struct Wish {
    uint64_t num_chunks, min_elements, min_bytes;
  };
  for (const Wish& wish : {Wish{64, 0, 256 << 10}, Wish{16, 256 << 10, 0}, Wish{4, 16 << 10, 0}}) {
    const auto elements_of_min_bytes =
        static_cast<uint64_t>(static_cast<double>(wish.min_bytes) / push_bytes);
    limit = std::min(limit, std::max({elements_of_lane / wish.num_chunks + 1, wish.min_elements,
                                      elements_of_min_bytes}));
  }
  return limit;
}

struct DataLane {
  uint32_t shard = 0;
  uint32_t lane = 0;  // which data lane of the shard, counted from 1
};

// Shares chunks out among the lanes, by their bytes.
class Dealer {
 public:
  // `num_lanes`: by shard, the number of its data lanes; at least 1.
  explicit Dealer(const std::vector<uint32_t>& num_lanes) : bytes_of_shard_(num_lanes.size()) {
    for (const uint32_t lanes_of_shard : num_lanes) bytes_of_lane_.emplace_back(lanes_of_shard);
  }

  // Gives a chunk to the shard that has the fewest bytes so far, and there to the data lane that
  // has the fewest; to the first of several with equally few.
  DataLane Deal(uint64_t bytes) {
    const uint32_t shard = AddToSmallest(bytes, &bytes_of_shard_);
    return {shard, 1 + AddToSmallest(bytes, &bytes_of_lane_[shard])};
  }

 private:
  // Returns the index of the sum to which it added.
  static uint32_t AddToSmallest(uint64_t bytes, std::vector<uint64_t>* sums) {
    const auto smallest = std::min_element(sums->begin(), sums->end());
    *smallest += bytes;
    return static_cast<uint32_t>(smallest - sums->begin());
  }

  std::vector<uint64_t> bytes_of_shard_;
  std::vector<std::vector<uint64_t>> bytes_of_lane_;  // by shard
};

}  // namespace tern::protocol
