// The byte format of the QSGD code of one segment, for gradients and for means that the server
// encodes again. A bucket is a run of neighbouring elements with one norm. The first bucket begins
// at the segment's first element; only the last bucket may be shorter than the others.
//
//   norms    IEEE single, little-endian, one per bucket
//   widths   one byte per bucket: bits per element
//   ends     8 bytes, little-endian, for each group of 64 buckets (the last group may be smaller):
//            the bit of `levels` at which the group's last bucket ends
//   levels   a number per element (qsgd_levels.h), packed without gaps (bit_pack.h); unused bits of
//            the last byte are zero
//
// `widths` and `ends` exist only if exchange.qsgd.levels is not `by_bits`, because the buckets then
// differ in their bits per element.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/codec/codec.h"
#include "common/codec/qsgd_levels.h"

namespace tern::codec {

// Encodes and decodes segments in this format for one setting of the options.
class QsgdForm {
 public:
  // REQUIRES options that pass CheckQsgd.
  explicit QsgdForm(const Options::Qsgd& options)
      : levels_(options), bucket_size_(options.bucket) {}

  // The most bytes that AppendCode writes for `count` elements.
  size_t MaxSize(uint64_t count) const;
  // Appends the code of g[0, segment.count).
  void AppendCode(const float* g, const Segment& segment, kernels::NoiseKey noise,
                  std::vector<uint8_t>* out) const;
  // The size in bytes of the code of `count` elements at the front of `bytes`. kMismatch if `bytes`
  // is too short, the last of `ends` is too large, or an unused bit is set. Takes constant time.
  Result<size_t> CodeSize(std::span<const uint8_t> bytes, uint64_t count) const;
  // Decodes elements [first, first + n) of `count` into values[0, n), and checks the buckets that
  // it reads: kMismatch if one is invalid. The time does not depend on `first`. REQUIRES that
  // code.size() is what CodeSize returned, and first + n <= count.
  Status DecodeRange(std::span<const uint8_t> code, uint64_t count, uint64_t first, uint64_t n,
                     float* values) const;
  // Checks all buckets of a code as DecodeRange does, without decoding them.
  Status CheckLevels(std::span<const uint8_t> code, uint64_t count) const;

 private:
  struct Sections;  // the four parts of a code: norms, widths, ends and levels
  // Calls use(codes, bucket) for the codes of elements [first, first + n), a block of one bucket at
  // a time. kMismatch if a bucket is invalid, or if `use` returns false.
  template <typename UseLevels>
  Status VisitLevels(std::span<const uint8_t> code, uint64_t count, uint64_t first, uint64_t n,
                     const UseLevels& use) const;
  Sections SplitIntoSections(std::span<const uint8_t> code, uint64_t count) const;
  Status ReadBucket(const Sections& sections, uint64_t bucket, uint64_t begin_bit,
                    QsgdLevels::Bucket* header, uint64_t* end_bit) const;
  // Whether every bucket has the same number of bits per element.
  bool BucketsShareWidth() const { return levels_.rule().bits > 0; }
  // Elements of a bucket, except the last, of a segment of `count` elements.
  uint64_t BucketSize(uint64_t count) const { return bucket_size_ == 0 ? count : bucket_size_; }
  uint64_t NumBuckets(uint64_t count) const;
  size_t HeaderSize(uint64_t count) const;  // bytes of norms, widths and ends together
  // The most bits that the levels of a segment of `count` elements take.
  uint64_t MaxBits(uint64_t count) const;

  QsgdLevels levels_;
  uint64_t bucket_size_;  // Options::Qsgd::bucket: elements per bucket; 0: one bucket
};

}  // namespace tern::codec
