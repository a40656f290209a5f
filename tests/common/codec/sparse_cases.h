// Shared by the tests of sparse codecs.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/codec/sparse.h"
#include "tests/conformance/codec_conformance.h"

namespace tern::codec {

// The unused bits of a payload, as CodecCase::unused_bits wants them. At most kSparseBlock
// elements.
std::vector<size_t> UnusedBitsOfFloats(std::span<const uint8_t> payload, uint64_t count);
std::vector<size_t> UnusedBitsOfPairs(std::span<const uint8_t> payload, uint64_t count);

// One worker that encodes one tensor from round to round, as the coder thread does.
class Sender {
 public:
  Sender(const Codec& codec, uint64_t count) : codec_(codec), memory_(codec.NewMemory(count)) {}

  // Returns the values that receivers decode, in segments of `step` elements. If the gradient
  // contains an infinity, it is visible in `compensated` only.
  std::vector<float> Send(const std::vector<float>& g, uint64_t round = 0, uint64_t step = 1 << 20);
  const std::vector<float>& compensated() const { return compensated_; }
  const std::vector<uint8_t>& code() const { return code_; }
  Memory& memory() { return *memory_; }
  // The memory's saved array of that name; fails the test if there is none.
  std::vector<float> Saved(const std::string& name);
  // Restores the state that another worker saved.
  void Restore(Sender& from);

 private:
  const Codec& codec_;
  std::unique_ptr<Memory> memory_;
  std::vector<float> compensated_;
  std::vector<uint8_t> code_;
};

// Checks that an invalid option is refused, with a sentence that contains `named`.
void ExpectRefused(const char* codec, const Options& options, const std::string& named);
std::unique_ptr<Codec> MadeOf(const char* codec, const Options& options);

}  // namespace tern::codec
