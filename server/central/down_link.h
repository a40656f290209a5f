// Encodes one chunk's central weights for workers with the job's pull codec, as weights or as
// changes, as the job asks:
//
//   weights  code(w)
//   changes  code(w - h)
//            h += decoded code
//
// h is what the receiver holds, so the next change contains what the last code lost. There is one h
// per receiver; the workers of a job with rounds are one receiver, because they all hold the same.
// The answer is the code itself, not a sum of codes, because there is one sender.
//
// Changes need a codec whose error is smaller than the difference that it codes. A code drawn at
// random may have a larger error, and w - h would grow from version to version; so job validation
// refuses such codecs for changes.
//
// If it is not known what a receiver holds, it gets the complete weights in fp32. Used by the
// thread of its lane alone.
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
  // At first all receivers hold `initial`, which has the chunk's elements, as version 0. `setup`
  // and `chunk` outlive it.
  DownLink(const setup::Setup& setup, const protocol::Chunk& chunk, uint32_t receivers,
           std::span<const float> initial);

  // Encodes w, which is version `version` of the weights, for a receiver that holds version `holds`
  // (nullopt: none, or it is not known).
  protocol::ClockCell::Answer Encode(uint32_t receiver, std::span<const float> w, uint64_t version,
                                     std::optional<uint64_t> holds);
  // Repeats the answer for `receiver` that encoded w, version `version` of the weights, in a form
  // that any worker can decode: afterwards it holds the same as that receiver.
  protocol::ClockCell::Answer Repeat(uint32_t receiver, std::span<const float> w,
                                     uint64_t version) const;
  // The version of the weights in the receiver's newest answer. Only where answers are changes.
  uint64_t sent(uint32_t receiver) const { return sent_[receiver]; }
  // The weights that `receiver` holds after its newest answer, which encoded w.
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
  std::vector<std::vector<float>> held_;  // h, by receiver; only where answers are changes
  std::vector<uint64_t> sent_;            // by receiver: the version of held_
  std::vector<float> difference_;
};

}  // namespace tern::server
