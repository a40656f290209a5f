// Writes, checks and reads the bytes of QSGD's codes (Alistarh et al. 2017).
#include "common/codec/qsgd_form.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "common/base/text.h"
#include "common/codec/bit_pack.h"
#include "common/codec/float_sum.h"

namespace tern::codec {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are copied in native byte order");

using kernels::kQsgdStride;
constexpr size_t kBlockSize = 1024;  // elements that are encoded or decoded at a time

uint64_t DivideUp(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

// Reads number i of the section `ends`.
uint64_t ReadEnd(std::span<const uint8_t> ends, uint64_t i) {
  uint64_t end = 0;
  std::memcpy(&end, ends.data() + i * sizeof end, sizeof end);
  return end;
}

}  // namespace

// The sections of the code of a segment (a range of a tensor). A bucket is a group of elements with
// one norm. `widths` has the bits per level of each bucket; `ends` has the bits at which the levels
// of every kQsgdStride-th bucket and of the last bucket end. Both are empty if all buckets have the
// same width.
struct QsgdForm::Sections {
  std::span<const uint8_t> norms, widths, ends, levels;
  uint64_t count = 0;        // elements of the segment
  uint64_t bucket_size = 0;  // elements of a bucket, except the last
  uint64_t level_bits = 0;   // bits of all levels together

  uint64_t LengthOf(uint64_t bucket) const {
    return std::min(bucket_size, count - bucket * bucket_size);
  }
};

uint64_t QsgdForm::NumBuckets(uint64_t count) const {
  return count == 0 ? 0 : kernels::QsgdBuckets(count, BucketSize(count));
}

size_t QsgdForm::HeaderSize(uint64_t count) const {
  return kernels::QsgdHeaderSize(levels_.rule(), NumBuckets(count));
}

uint64_t QsgdForm::MaxBits(uint64_t count) const {
  return count == 0 ? 0 : kernels::QsgdMaxBits(levels_.rule(), count, BucketSize(count));
}

size_t QsgdForm::MaxSize(uint64_t count) const {
  return count == 0 ? 0 : kernels::QsgdMaxSize(levels_.rule(), count, BucketSize(count));
}

void QsgdForm::AppendCode(const float* g, const Segment& segment, kernels::NoiseKey noise,
                          std::vector<uint8_t>* out) const {
  const uint64_t count = segment.count, bucket_size = BucketSize(count),
                 num_buckets = NumBuckets(count);
  noise.tensor = segment.tensor;
  std::vector<QsgdLevels::Bucket> bucket_headers(num_buckets);
  std::vector<float> norms(num_buckets);
  std::vector<uint8_t> widths(num_buckets);
  std::vector<uint64_t> ends(DivideUp(num_buckets, kQsgdStride));
  uint64_t level_bits = 0;
  for (uint64_t bucket = 0; bucket < num_buckets; ++bucket) {
    const uint64_t length = std::min(bucket_size, count - bucket * bucket_size);
    bucket_headers[bucket] = levels_.Measure({g + bucket * bucket_size, length});
    norms[bucket] = bucket_headers[bucket].norm;
    widths[bucket] = static_cast<uint8_t>(bucket_headers[bucket].width);
    level_bits += length * widths[bucket];
    ends[bucket / kQsgdStride] = level_bits;
  }
  AppendFloats(norms, out);
  if (!BucketsShareWidth()) {
    out->insert(out->end(), widths.begin(), widths.end());
    const auto* end_bytes = reinterpret_cast<const uint8_t*>(ends.data());
    out->insert(out->end(), end_bytes, end_bytes + ends.size() * sizeof(uint64_t));
  }
  const size_t levels_begin = out->size();
  out->resize(levels_begin + DivideUp(level_bits, 8));
  BitWriter writer(out->data() + levels_begin);
  std::array<uint32_t, kBlockSize> codes;
  for (uint64_t first = 0, n = 0; first < count; first += n) {
    const uint64_t bucket = first / bucket_size;
    n = std::min<uint64_t>({kBlockSize, (bucket + 1) * bucket_size - first, count - first});
    levels_.Encode({g + first, n}, bucket_headers[bucket], noise, segment.begin + first,
                   std::span(codes).first(n));
    writer.AppendValues(std::span(codes).first(n), bucket_headers[bucket].width);
  }
  writer.Finish();
}

Result<size_t> QsgdForm::CodeSize(std::span<const uint8_t> bytes, uint64_t count) const {
  const auto cut_short = [&](size_t expected) {
    return Status(Code::kMismatch, Cat("qsgd code cut short: ", bytes.size(), " bytes, expected ",
                                       expected, " for ", count, " elements"));
  };
  if (count == 0) return size_t{0};
  const size_t header_size = HeaderSize(count);
  if (bytes.size() < header_size) return cut_short(header_size);
  uint64_t level_bits = MaxBits(count);
  if (!BucketsShareWidth()) {
    const uint64_t stored_end = ReadEnd(bytes.first(header_size).last(sizeof(uint64_t)), 0);
    if (stored_end > level_bits) {
      return Status(Code::kMismatch, Cat("qsgd levels of ", stored_end, " bits, expected at most ",
                                         level_bits, " for ", count, " elements"));
    }
    level_bits = stored_end;
  }
  const size_t code_size = header_size + DivideUp(level_bits, 8);
  if (bytes.size() < code_size) return cut_short(code_size);
  if (level_bits % 8 == 0 || bytes[code_size - 1] >> (level_bits % 8) == 0) return code_size;
  return Status(Code::kMismatch,
                Cat("qsgd levels of ", level_bits, " bits have a bit set beyond the last of them"));
}

QsgdForm::Sections QsgdForm::SplitIntoSections(std::span<const uint8_t> code,
                                               uint64_t count) const {
  Sections sections;
  sections.count = count;
  sections.bucket_size = BucketSize(count);
  const uint64_t num_buckets = NumBuckets(count);
  const size_t header_size = HeaderSize(count);
  sections.norms = code.first(num_buckets * sizeof(float));
  sections.levels = code.subspan(header_size);
  sections.level_bits = MaxBits(count);
  if (BucketsShareWidth()) return sections;
  sections.widths = code.subspan(sections.norms.size(), num_buckets);
  const size_t ends_begin = sections.norms.size() + num_buckets;
  sections.ends = code.subspan(ends_begin, header_size - ends_begin);
  sections.level_bits = ReadEnd(sections.ends.last(sizeof(uint64_t)), 0);
  return sections;
}

// Reads and checks the norm and width of a bucket whose levels begin at begin_bit, and checks that
// the end of its levels agrees with `ends`. Sets *end_bit to the bit at which the bucket's levels
// end.
Status QsgdForm::ReadBucket(const Sections& sections, uint64_t bucket, uint64_t begin_bit,
                            QsgdLevels::Bucket* header, uint64_t* end_bit) const {
  const uint64_t length = sections.LengthOf(bucket);
  ReadFloats(sections.norms.subspan(bucket * sizeof(float)), {&header->norm, 1});
  header->s = levels_.LevelCount(length);
  header->width = sections.widths.empty() ? levels_.MaxWidth(length) : sections.widths[bucket];
  Status header_status = levels_.Check(header->norm, header->width, length);
  if (!header_status.ok()) return header_status.Within(Cat("qsgd bucket ", bucket));
  *end_bit = begin_bit + length * static_cast<uint64_t>(header->width);
  if (sections.ends.empty()) return Ok();
  const bool has_stored_end = bucket % kQsgdStride == kQsgdStride - 1 ||
                              (bucket + 1) * sections.bucket_size >= sections.count;
  const uint64_t stored_end = ReadEnd(sections.ends, bucket / kQsgdStride);
  if (stored_end <= sections.level_bits &&
      (has_stored_end ? *end_bit == stored_end : *end_bit <= stored_end))
    return Ok();
  return Status(Code::kMismatch,
                Cat("qsgd bucket ", bucket, " ends at bit ", *end_bit, " of ", sections.level_bits,
                    ", expected ", stored_end, has_stored_end ? "" : " at most"));
}

template <typename UseLevels>
Status QsgdForm::VisitLevels(std::span<const uint8_t> code, uint64_t count, uint64_t first,
                             uint64_t n, const UseLevels& use) const {
  if (n == 0) return Ok();
  const Sections sections = SplitIntoSections(code, count);
  uint64_t bucket = first / sections.bucket_size;
  uint64_t bit = 0;  // the bit at which the levels of `bucket` begin
  if (sections.ends.empty()) {
    bit = bucket * sections.bucket_size *
          static_cast<uint64_t>(levels_.MaxWidth(sections.bucket_size));
  } else {
    if (bucket >= kQsgdStride) bit = ReadEnd(sections.ends, bucket / kQsgdStride - 1);
    bit = std::min(bit, sections.level_bits);  // ReadBucket refuses an end beyond the row.
    for (uint64_t b = bucket / kQsgdStride * kQsgdStride; b < bucket; ++b)
      bit += sections.bucket_size * sections.widths[b];
  }
  for (const uint64_t end_element = first + n; first < end_element; ++bucket) {
    QsgdLevels::Bucket header;
    uint64_t end_bit = 0;
    TERN_RETURN_IF_ERROR(ReadBucket(sections, bucket, bit, &header, &end_bit));
    const uint64_t begin = bucket * sections.bucket_size;
    const uint64_t bucket_end = std::min(end_element, begin + sections.LengthOf(bucket));
    while (first < bucket_end) {
      const uint64_t block_length = std::min<uint64_t>(kBlockSize, bucket_end - first);
      const PackedNumbers codes{sections.levels,
                                bit + (first - begin) * static_cast<uint64_t>(header.width),
                                header.width, block_length};
      if (!use(codes, header))
        return Status(Code::kMismatch, Cat("qsgd bucket ", bucket, " has an invalid level"));
      first += block_length;
    }
    bit = end_bit;
  }
  return Ok();
}

Status QsgdForm::CheckLevels(std::span<const uint8_t> code, uint64_t count) const {
  return VisitLevels(code, count, 0, count,
                     [this](const PackedNumbers& codes, const QsgdLevels::Bucket& bucket) {
                       return levels_.AreValid(codes, bucket);
                     });
}

Status QsgdForm::DecodeRange(std::span<const uint8_t> code, uint64_t count, uint64_t first,
                             uint64_t n, float* values) const {
  std::array<uint32_t, kBlockSize> block;
  return VisitLevels(code, count, first, n,
                     [&](const PackedNumbers& codes, const QsgdLevels::Bucket& bucket) {
                       const std::span<uint32_t> numbers = std::span(block).first(codes.count);
                       Unpack(codes, numbers);
                       const bool is_valid = levels_.Decode(numbers, bucket, {values, codes.count});
                       values += codes.count;
                       return is_valid;
                     });
}

}  // namespace tern::codec
