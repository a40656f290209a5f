// Helpers of the tests of sparse codecs.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/codec/sparse.h"
#include "tests/conformance/codec_conformance.h"

namespace tern::codec {

// For CodecCase::unused_bits: the indices of a payload's unused bits, which must be zero, for
// sparse codes of floats and of pairs (two values for all sent elements). REQUIRES at most
// kSparseBlock elements.
std::vector<size_t> UnusedBitsOfFloats(std::span<const uint8_t> payload, uint64_t count);
std::vector<size_t> UnusedBitsOfPairs(std::span<const uint8_t> payload, uint64_t count);

// A worker that encodes a gradient of one tensor in every round, and keeps in its memory what the
// codes left out.
class Sender {
 public:
  Sender(const Codec& codec, uint64_t count) : codec_(codec), memory_(codec.NewMemory(count)) {}

  // Encodes g plus the memory in segments of `segment_elements`. Returns the values that receivers
  // decode. If an element of that sum is not finite, sends nothing and returns zeros.
  std::vector<float> Send(const std::vector<float>& g, uint64_t round = 0,
                          uint64_t segment_elements = 1 << 20);
  const std::vector<float>& compensated() const { return compensated_; }
  const std::vector<uint8_t>& code() const { return code_; }
  Memory& memory() { return *memory_; }
  // The memory's saved array of that name; fails the test if there is none.
  std::vector<float> SavedArray(const std::string& name);
  // Copies the other worker's memory to this worker's.
  void RestoreFrom(Sender& other);

 private:
  const Codec& codec_;
  std::unique_ptr<Memory> memory_;
  std::vector<float> compensated_;  // the gradient plus the memory, before encoding
  std::vector<uint8_t> code_;
};

// Checks that the codec refuses `options`, with an error message that contains `key`.
void ExpectRefused(const char* codec_name, const Options& options, const std::string& key);
// Makes a codec from valid options.
std::unique_ptr<Codec> MakeValidCodec(const char* codec_name, const Options& options);

}  // namespace tern::codec
