// The byte format of one segment in QSGD, up, and also down when sums are encoded again. Buckets
// are counted from the segment's first element, which begins one; only the last may be shorter.
//
//   norms    IEEE single, little-endian, one per bucket
//   widths   one byte per bucket: bits per element
//   ends     8 bytes, little-endian, per 64 buckets or part of them: the bit of `levels` at which
//            the last of them ends
//   levels   a number per element (qsgd_levels.h), packed without gaps (bit_pack.h); unused bits of
//            the last byte are zero
//
// widths and ends exist only if the job gives s instead of the bits: buckets then differ in width.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/codec/codec.h"
#include "common/codec/qsgd_levels.h"

namespace tern::codec {

class QsgdForm {
 public:
  // REQUIRES options that pass CheckQsgd.
  explicit QsgdForm(const Options::Qsgd& options) : levels_(options), bucket_(options.bucket) {}

  // The most bytes that Append writes for `count` elements.
  size_t MaxSize(uint64_t count) const;
  // Appends the code of g[0, segment.count).
  void Append(const float* g, const Segment& segment, kernels::NoiseKey noise,
              std::vector<uint8_t>* out) const;
  // The size of the code at the front of `bytes`, in constant time. kMismatch if it is invalid.
  Result<size_t> Size(std::span<const uint8_t> bytes, uint64_t count) const;
  // Decodes elements [first, first + n) into values[0, n), and checks everything that it reads; the
  // time does not depend on `first`. REQUIRES that code.size() is what Size returned, and
  // first + n <= count.
  Status Read(std::span<const uint8_t> code, uint64_t count, uint64_t first, uint64_t n,
              float* values) const;

 private:
  struct Sections;
  Sections Split(std::span<const uint8_t> code, uint64_t count) const;
  Status ReadBucket(const Sections& parts, uint64_t bucket, uint64_t at, QsgdLevels::Bucket* header,
                    uint64_t* end) const;
  // Whether every bucket has the same number of bits per element.
  bool SameWidth() const { return levels_.rule().bits > 0; }
  // Elements of a bucket, except the last.
  uint64_t BucketSize(uint64_t count) const { return bucket_ == 0 ? count : bucket_; }
  uint64_t Buckets(uint64_t count) const;
  size_t HeaderSize(uint64_t count) const;
  uint64_t MaxBits(uint64_t count) const;  // the most bits of the levels of a segment

  QsgdLevels levels_;
  uint64_t bucket_;
};

}  // namespace tern::codec
