// Encodes the weights w of one chunk, which the server holds, for the workers. The job chooses the
// codec and whether answers are weights or changes of weights:
//
//   weights  the server sends code(w)
//   changes  the server sends code(w - h), then h += decoded code
//
// h is the weights that the receiver has, so the next change includes what the last code lost.
// There is one h per receiver. In a job with rounds all workers have the same weights, so all
// workers together are one receiver.
//
// Changes need a codec whose error is smaller than the difference that it codes. A code drawn at
// random may have a larger error, and w - h would grow with every change; so job validation refuses
// such codecs for changes.
//
// With `changes`, if the server does not know which weights a receiver has, it sends the complete
// weights in fp32. Only the thread that serves the chunk uses a DownLink.
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
  // At first all receivers have the weights `initial` (the chunk's elements), which are version 0.
  // `setup` and `chunk` must outlive this object.
  DownLink(const setup::Setup& setup, const protocol::Chunk& chunk, uint32_t receivers,
           std::span<const float> initial);

  // Encodes w, which is version `version` of the weights, for a receiver that holds version
  // `held_version` (nullopt: none, or it is not known).
  protocol::ClockCell::Answer Encode(uint32_t receiver, std::span<const float> w, uint64_t version,
                                     std::optional<uint64_t> held_version);
  // Encodes the weights that `receiver` has after an answer that encoded w (version `version` of
  // the weights), so that a worker can decode them whatever it had before.
  protocol::ClockCell::Answer EncodeHeldWeights(uint32_t receiver, std::span<const float> w,
                                                uint64_t version) const;
  // The version of the weights in the receiver's newest answer. Valid only if answers are changes.
  uint64_t sent_version(uint32_t receiver) const { return sent_version_[receiver]; }
  // The weights that `receiver` has after its newest answer, which encoded w. If answers are not
  // changes, returns w, without the error of its code.
  std::span<const float> HeldWeights(uint32_t receiver, std::span<const float> w) const;
  // Adds the h of each receiver and its version to what checkpoints save and restore.
  void AddState(SavedState* state);

 private:
  // Appends the code of `values` to *code. False, with *code empty, if a value is not finite.
  bool EncodeValues(std::span<const float> values, uint32_t receiver, uint64_t version,
                    std::vector<uint8_t>* code) const;
  // Decodes `coded` and adds the result to `values`.
  void AddDecoded(std::span<const uint8_t> coded, std::span<float> values) const;

  const setup::Setup& setup_;
  const protocol::Chunk& chunk_;
  const bool sends_changes_;
  std::vector<std::vector<float>> held_weights_;  // h of each receiver; empty for `weights`
  std::vector<uint64_t> sent_version_;            // the version of each h; 0 for `weights`
  std::vector<float> difference_;                 // w - h while it is encoded
};

}  // namespace tern::server
