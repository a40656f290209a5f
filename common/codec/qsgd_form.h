// What travels of one segment in QSGD: up, and down where sums are coded anew. Buckets are counted
// from the segment's first element on, where one begins; only the last may be shorter.
//
//   norms    IEEE single, little-endian, one a bucket
//   widths   one byte a bucket: bits an element   } only where the job gives s, not the bits:
//   ends     8 bytes, little-endian, for every    } buckets then differ in width
//            64 buckets begun: the bit of `levels` at which the last of them ends
//   levels   a number for every element (qsgd_levels.h), in a row without gaps (bit_pack.h); unused
//            bits of the last byte are zero
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/codec/codec.h"
#include "common/codec/qsgd_levels.h"

namespace tern::codec {

class QsgdForm {
 public:
  // REQUIRES options that CheckQsgd takes.
  explicit QsgdForm(const Options::Qsgd& options) : levels_(options), bucket_(options.bucket) {}

  // The most bytes that Append makes of `count` elements.
  size_t MaxSize(uint64_t count) const;
  // Appends the code of g[0, segment.count).
  void Append(const float* g, const Segment& segment, kernels::NoiseKey noise,
              std::vector<uint8_t>* out) const;
  // The size of the code at the front of `bytes`, in a time that does not depend on it. kMismatch
  // if there is none.
  Result<size_t> Size(std::span<const uint8_t> bytes, uint64_t count) const;
  // values[0, n) of elements [first, first + n), of which everything is checked, in a time that
  // does not depend on where they lie. REQUIRES code.size() as Size says, and elements that are
  // there.
  Status Read(std::span<const uint8_t> code, uint64_t count, uint64_t first, uint64_t n,
              float* values) const;

 private:
  struct Parts;
  Parts Split(std::span<const uint8_t> code, uint64_t count) const;
  Status ReadBucket(const Parts& parts, uint64_t bucket, uint64_t at, QsgdLevels::Bucket* header,
                    uint64_t* end) const;
  // Whether every bucket has the same number of bits an element.
  bool SameWidth() const { return levels_.rule().bits > 0; }
  // Elements of a bucket, but for the last.
  uint64_t BucketSize(uint64_t count) const { return bucket_ == 0 ? count : bucket_; }
  uint64_t Buckets(uint64_t count) const;
  size_t HeaderSize(uint64_t count) const;
  uint64_t MaxBits(uint64_t count) const;  // of all levels

  QsgdLevels levels_;
  uint64_t bucket_;
};

}  // namespace tern::codec
