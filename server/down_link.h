// The way down of one chunk's central weights: coded with the job's pull codec, as weights or as
// changes.
//
//   weights  code(w)
//   changes  code(w - h), h what the receiver holds; then h += what the code decodes to. What the
//            code lost is in the next difference. One h a receiver: the workers of a synchronous
//            job are one, for they all hold the same.
//
// The code travels as it is, for there is one sender and nothing to add up. Changes need a codec
// that leaves out less than the difference it was given. A drawn code may leave out more, and w - h
// then grows from version to version: validation refuses those codecs.
//
// Where a difference would be of no use (nobody knows what the receiver holds) it gets the weights
// whole, in fp32. Belongs to the thread of its lane.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/protocol/clock_lane.h"
#include "common/setup/setup.h"
#include "server/central.h"

namespace tern::server {

class DownLink {
 public:
  // All receivers hold `initial` (the chunk's part), version 0.
  DownLink(const setup::Setup& setup, const protocol::Chunk& chunk, uint32_t receivers,
           std::span<const float> initial);

  // w, which is `version` of the weights, for a receiver that holds version `holds` of them
  // (nothing: none, or nobody knows).
  protocol::ClockCell::Answer Encode(uint32_t receiver, std::span<const float> w, uint64_t version,
                                     std::optional<uint64_t> holds);
  // What brings any worker to where `receiver` is since its answer of w, `version` of the weights.
  protocol::ClockCell::Answer Repeat(uint32_t receiver, std::span<const float> w,
                                     uint64_t version) const;
  // The version that a receiver of changes was last brought to.
  uint64_t sent(uint32_t receiver) const { return sent_[receiver]; }
  // What `receiver` made of the newest answer, which was of w.
  std::span<const float> Held(uint32_t receiver, std::span<const float> w) const;
  void AddState(SavedState* state);

 private:
  // False: a value is not finite.
  bool EncodeValues(std::span<const float> values, uint32_t receiver, uint64_t version,
                    std::vector<uint8_t>* out) const;
  void AddDecoded(std::span<const uint8_t> coded, std::span<float> values) const;

  const setup::Setup& setup_;
  const protocol::Chunk& chunk_;
  const bool changes_;
  std::vector<std::vector<float>> held_;  // by receiver; changes only
  std::vector<uint64_t> sent_;            // by receiver: the version that held_ is of
  std::vector<float> difference_;
};

}  // namespace tern::server
