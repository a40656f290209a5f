// The byte format of QSGD's codes (Alistarh et al. 2017): norms, widths and ends, levels.
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

static_assert(std::endian::native == std::endian::little, "numbers are copied as they lie");

using kernels::kQsgdStride;
constexpr size_t kBlock = 1024;  // elements that are encoded or decoded at a time

uint64_t DivideUp(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

uint64_t ReadEnd(std::span<const uint8_t> ends, uint64_t i) {
  uint64_t end = 0;
  std::memcpy(&end, ends.data() + i * sizeof end, sizeof end);
  return end;
}

}  // namespace

// The sections of a code; widths and ends are empty if all buckets have one width.
struct QsgdForm::Sections {
  std::span<const uint8_t> norms, widths, ends, levels;
  uint64_t count = 0;  // elements of the segment
  uint64_t size = 0;   // elements of a bucket, except the last
  uint64_t bits = 0;   // bits of all levels together

  uint64_t LengthOf(uint64_t bucket) const { return std::min(size, count - bucket * size); }
};

uint64_t QsgdForm::Buckets(uint64_t count) const {
  return count == 0 ? 0 : kernels::QsgdBuckets(count, BucketSize(count));
}

size_t QsgdForm::HeaderSize(uint64_t count) const {
  return kernels::QsgdHeaderSize(levels_.rule(), Buckets(count));
}

uint64_t QsgdForm::MaxBits(uint64_t count) const {
  return count == 0 ? 0 : kernels::QsgdMaxBits(levels_.rule(), count, BucketSize(count));
}

size_t QsgdForm::MaxSize(uint64_t count) const {
  return count == 0 ? 0 : kernels::QsgdMaxSize(levels_.rule(), count, BucketSize(count));
}

void QsgdForm::Append(const float* g, const Segment& segment, kernels::NoiseKey noise,
                      std::vector<uint8_t>* out) const {
  const uint64_t count = segment.count, size = BucketSize(count), buckets = Buckets(count);
  noise.tensor = segment.tensor;
  std::vector<QsgdLevels::Bucket> measured(buckets);
  std::vector<float> norms(buckets);
  std::vector<uint8_t> widths(buckets);
  std::vector<uint64_t> ends(DivideUp(buckets, kQsgdStride));
  uint64_t bits = 0;
  for (uint64_t b = 0; b < buckets; ++b) {
    const uint64_t length = std::min(size, count - b * size);
    measured[b] = levels_.Measure({g + b * size, length});
    norms[b] = measured[b].norm;
    widths[b] = static_cast<uint8_t>(measured[b].width);
    bits += length * widths[b];
    ends[b / kQsgdStride] = bits;
  }
  AppendFloats(norms, out);
  if (!SameWidth()) {
    out->insert(out->end(), widths.begin(), widths.end());
    const auto* from = reinterpret_cast<const uint8_t*>(ends.data());
    out->insert(out->end(), from, from + ends.size() * sizeof(uint64_t));
  }
  const size_t begin = out->size();
  out->resize(begin + DivideUp(bits, 8));
  BitWriter writer(out->data() + begin);
  std::array<uint32_t, kBlock> codes;
  for (uint64_t at = 0, n = 0; at < count; at += n) {
    const uint64_t b = at / size;
    n = std::min<uint64_t>({kBlock, (b + 1) * size - at, count - at});
    levels_.Encode({g + at, n}, measured[b], noise, segment.begin + at, std::span(codes).first(n));
    writer.Put(std::span(codes).first(n), measured[b].width);
  }
  writer.Finish();
}

Result<size_t> QsgdForm::Size(std::span<const uint8_t> bytes, uint64_t count) const {
  const auto cut_short = [&](size_t expected) {
    return Status(Code::kMismatch, Cat("qsgd code cut short: ", bytes.size(), " bytes, expected ",
                                       expected, " for ", count, " elements"));
  };
  if (count == 0) return size_t{0};
  const size_t header = HeaderSize(count);
  if (bytes.size() < header) return cut_short(header);
  uint64_t bits = MaxBits(count);
  if (!SameWidth()) {
    const uint64_t stored_end = ReadEnd(bytes.first(header).last(sizeof(uint64_t)), 0);
    if (stored_end > bits) {
      return Status(Code::kMismatch, Cat("qsgd levels of ", stored_end, " bits, expected at most ",
                                         bits, " for ", count, " elements"));
    }
    bits = stored_end;
  }
  const size_t size = header + DivideUp(bits, 8);
  if (bytes.size() < size) return cut_short(size);
  if (bits % 8 == 0 || bytes[size - 1] >> (bits % 8) == 0) return size;
  return Status(Code::kMismatch,
                Cat("qsgd levels of ", bits, " bits have a bit set beyond the last of them"));
}

QsgdForm::Sections QsgdForm::Split(std::span<const uint8_t> code, uint64_t count) const {
  Sections parts;
  parts.count = count;
  parts.size = BucketSize(count);
  const uint64_t buckets = Buckets(count);
  const size_t header = HeaderSize(count);
  parts.norms = code.first(buckets * sizeof(float));
  parts.levels = code.subspan(header);
  parts.bits = MaxBits(count);
  if (SameWidth()) return parts;
  parts.widths = code.subspan(parts.norms.size(), buckets);
  const size_t before = parts.norms.size() + buckets;
  parts.ends = code.subspan(before, header - before);
  parts.bits = ReadEnd(parts.ends.last(sizeof(uint64_t)), 0);
  return parts;
}

// Reads a bucket whose levels begin at bit `at`.
Status QsgdForm::ReadBucket(const Sections& parts, uint64_t bucket, uint64_t at,
                            QsgdLevels::Bucket* header, uint64_t* end) const {
  const uint64_t length = parts.LengthOf(bucket);
  ReadFloats(parts.norms.subspan(bucket * sizeof(float)), {&header->norm, 1});
  header->s = levels_.LevelCount(length);
  header->width = parts.widths.empty() ? levels_.MaxWidth(length) : parts.widths[bucket];
  Status possible = levels_.Check(header->norm, header->width, length);
  if (!possible.ok()) return possible.Within(Cat("qsgd bucket ", bucket));
  *end = at + length * static_cast<uint64_t>(header->width);
  if (parts.ends.empty()) return Ok();
  const bool last =
      bucket % kQsgdStride == kQsgdStride - 1 || (bucket + 1) * parts.size >= parts.count;
  const uint64_t stored_end = ReadEnd(parts.ends, bucket / kQsgdStride);
  if (stored_end <= parts.bits && (last ? *end == stored_end : *end <= stored_end)) return Ok();
  return Status(Code::kMismatch,
                Cat("qsgd bucket ", bucket, " ends at bit ", *end, " of ", parts.bits,
                    ", expected ", stored_end, last ? "" : " at most"));
}

Status QsgdForm::Read(std::span<const uint8_t> code, uint64_t count, uint64_t first, uint64_t n,
                      float* values) const {
  if (n == 0) return Ok();
  const Sections parts = Split(code, count);
  uint64_t bucket = first / parts.size;
  uint64_t at = 0;  // the bit at which the bucket begins
  if (parts.ends.empty()) {
    at = bucket * parts.size * static_cast<uint64_t>(levels_.MaxWidth(parts.size));
  } else {
    if (bucket >= kQsgdStride) at = ReadEnd(parts.ends, bucket / kQsgdStride - 1);
    at = std::min(at, parts.bits);  // beyond the row, the check of the bucket's end fails
    for (uint64_t b = bucket / kQsgdStride * kQsgdStride; b < bucket; ++b)
      at += parts.size * parts.widths[b];
  }
  std::array<uint32_t, kBlock> codes;
  for (const uint64_t stop = first + n; first < stop; ++bucket) {
    QsgdLevels::Bucket header;
    uint64_t end = 0;
    TERN_RETURN_IF_ERROR(ReadBucket(parts, bucket, at, &header, &end));
    const uint64_t begin = bucket * parts.size;
    const uint64_t until = std::min(stop, begin + parts.LengthOf(bucket));
    while (first < until) {
      const uint64_t some = std::min<uint64_t>(kBlock, until - first);
      const std::span<uint32_t> block = std::span(codes).first(some);
      UnpackBits(parts.levels, at + (first - begin) * static_cast<uint64_t>(header.width),
                 header.width, block);
      if (!levels_.Decode(block, header, {values, some})) {
        return Status(Code::kMismatch, Cat("qsgd bucket ", bucket, " has an invalid level"));
      }
      values += some;
      first += some;
    }
    at = end;
  }
  return Ok();
}

}  // namespace tern::codec
