// Sends one chunk's central weights to workers, coded with the job's pull codec, as weights or as
// changes:
//
//   weights  code(w)
//   changes  code(w - h)
//            h += decoded code
//
// The code travels as it is, since it has one sender and nothing is added up. Changes need a codec
// that leaves out less than the difference that it was given. A drawn code may leave out more, and
// w - h then grows from version to version: validation refuses those codecs.
//
// h is what the receiver holds, so the next change contains what the code lost. There is one h per
// receiver; the workers of a synchronous job are one receiver, because they all hold the same.
//
// A receiver of which nobody knows what it holds gets the weights whole, in fp32. Belongs to the
// thread of its lane.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/protocol/rounds/clock_lane.h"
#include "server/central/central.h"
#include "setup/setup.h"

namespace tern::server {

class DownLink {
 public:
  // All receivers hold `initial` (the chunk's part), version 0.
  DownLink(const setup::Setup& setup, const protocol::Chunk& chunk, uint32_t receivers,
           std::span<const float> initial);

  // Encodes w, version `version` of the weights, for a receiver that holds version `holds`
  // (nothing: none, or unknown).
  protocol::ClockCell::Answer Encode(uint32_t receiver, std::span<const float> w, uint64_t version,
                                     std::optional<uint64_t> holds);
  // An answer that brings any worker to the state of `receiver` after its answer of w, version
  // `version` of the weights.
  protocol::ClockCell::Answer Repeat(uint32_t receiver, std::span<const float> w,
                                     uint64_t version) const;
  // The version that a receiver of changes last got.
  uint64_t sent(uint32_t receiver) const { return sent_[receiver]; }
  // The weights that `receiver` has after its newest answer, which encoded w.
  std::span<const float> Held(uint32_t receiver, std::span<const float> w) const;
  void AddState(SavedState* state);

 private:
  // Returns false if a value is not finite.
  bool EncodeValues(std::span<const float> values, uint32_t receiver, uint64_t version,
                    std::vector<uint8_t>* out) const;
  void AddDecoded(std::span<const uint8_t> coded, std::span<float> values) const;

  const setup::Setup& setup_;
  const protocol::Chunk& chunk_;
  const bool changes_;
  std::vector<std::vector<float>> held_;  // by receiver; changes only
  std::vector<uint64_t> sent_;            // by receiver: the version of held_
  std::vector<float> difference_;
};

}  // namespace tern::server
