// Writes, checks and reads the wire format of the sparse codecs (sparse.h): a directory, and for
// each block positions (sparse_positions.h) and values.
#include "common/codec/sparse.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>

#include "common/codec/float_sum.h"
#include "common/codec/sparse_positions.h"
#include "kernels/codes/sparse.h"
#include "kernels/codes/sparse_math.h"

namespace tern::codec {
namespace {

using kernels::IsDenseBlock;
using kernels::SparseFormOf;
constexpr size_t kEntryBytes = kernels::kSparseEntryBytes;
static_assert(kSparseBlock == kernels::kSparseBlock);
constexpr size_t kPairBytes = 2 * sizeof(float);

using Block = std::array<float, kSparseBlock>;

uint64_t NumBlocks(uint64_t count) { return (count + kSparseBlock - 1) / kSparseBlock; }
size_t PairSize(SparseValues values) { return values == SparseValues::kPair ? kPairBytes : 0; }
size_t ByteCount(size_t bits) { return (bits + 7) / 8; }

// The size in bytes of the body (positions and values) of a block of `length` elements, of which k
// are sent.
size_t BodySizeOf(SparseValues values, uint32_t k, uint32_t length) {
  if (values == SparseValues::kFloats) return kernels::SparseBodySize(k, length);
  return k == 0 ? 0 : SparseFormOf(k, length).bytes + ByteCount(k);
}

// Sets bit `at` of `row`, an array of bits.
void SetBit(uint8_t* row, size_t at) {
  row[at / 8] = static_cast<uint8_t>(row[at / 8] | 1u << (at % 8));
}

// Appends a dense block: all elements of x, 0 in place of those that are not sent.
void AppendDenseBlock(std::span<const float> x, std::span<const uint8_t> is_sent,
                      std::vector<uint8_t>* out) {
  Block values;
  for (size_t i = 0; i < x.size(); ++i) values[i] = (is_sent[i / 8] >> (i % 8) & 1) != 0 ? x[i] : 0;
  AppendFloats(std::span(values).first(x.size()), out);
}

// Appends the body of the block of elements x, of which it sends those that are not 0 and have at
// least the magnitude `threshold`. Returns the block's directory entry.
size_t AppendBlock(SparseValues values, std::span<const float> x, float threshold,
                   std::vector<uint8_t>* out) {
  std::array<uint8_t, kSparseBlock / 8> bits;
  kernels::PackAtLeast(x.data(), x.size(), threshold, bits.data());
  const std::span<const uint8_t> is_sent = std::span(bits).first(ByteCount(x.size()));
  SparsePositions positions;
  const size_t k = kernels::ListOnes(is_sent.data(), 0, x.size(), positions.data());
  const bool sends_floats = values == SparseValues::kFloats;
  if (k == 0) return 0;
  if (sends_floats && IsDenseBlock(k, x.size())) {
    AppendDenseBlock(x, is_sent, out);
    return x.size();
  }
  const size_t begin = out->size();
  out->resize(begin + BodySizeOf(values, k, x.size()));
  const size_t position_bytes = SparseFormOf(k, x.size()).bytes;
  PutPositions(std::span(positions).first(k), is_sent, x.size(),
               std::span(*out).subspan(begin, position_bytes));
  uint8_t* const coded_values = out->data() + begin + position_bytes;
  for (size_t i = 0; i < k; ++i) {
    const float value = x[positions[i]];
    if (sends_floats) {
      std::memcpy(coded_values + 4 * i, &value, sizeof value);
    } else if (value > 0) {
      SetBit(coded_values, i);
    }
  }
  return k;
}

// Appends directory and blocks of `count` elements. `block_of(first, n)` returns the values of
// elements [first, first + n); those that are not 0 and have at least the magnitude `threshold` are
// sent.
template <typename BlockOf>
void AppendBlocks(SparseValues values, uint64_t count, float threshold, BlockOf block_of,
                  std::vector<uint8_t>* out) {
  const size_t directory_begin = out->size();
  out->resize(directory_begin + kEntryBytes * NumBlocks(count));
  for (uint64_t b = 0; b < NumBlocks(count); ++b) {
    const uint64_t first = b * kSparseBlock;
    const std::span<const float> x =
        block_of(first, std::min<uint64_t>(kSparseBlock, count - first));
    const size_t num_sent = AppendBlock(values, x, threshold, out);
    (*out)[directory_begin + kEntryBytes * b] = static_cast<uint8_t>(num_sent);
    (*out)[directory_begin + kEntryBytes * b + 1] = static_cast<uint8_t>(num_sent >> 8);
  }
}

// The same for the values that `fill` sets: sends all that are not 0.
void AppendFilledBlocks(SparseValues values, uint64_t count, const FillSparse& fill,
                        std::vector<uint8_t>* out) {
  Block block;
  const auto block_of = [&](uint64_t first, uint64_t n) {
    const std::span<float> x = std::span(block).first(n);
    fill(first, x);
    return x;
  };
  AppendBlocks(values, count, 0, block_of, out);
}

Status CheckPair(const SparsePair& pair) {
  const bool is_low_valid =
      std::isfinite(pair.low) && (pair.low < 0 || std::bit_cast<uint32_t>(pair.low) == 0);
  if (is_low_valid && std::isfinite(pair.high) && !std::signbit(pair.high)) return Ok();
  return Status(Code::kMismatch,
                "sparse values are " + std::to_string(pair.low) + " and " +
                    std::to_string(pair.high) +
                    ", expected finite numbers, the first at most 0 and the second at least 0");
}

Status InvalidBlockError(uint64_t block, const std::string& problem) {
  return Status(Code::kMismatch, "sparse block " + std::to_string(block) + " " + problem);
}

}  // namespace

void AppendSparse(uint64_t count, const FillSparse& fill, std::vector<uint8_t>* out) {
  AppendFilledBlocks(SparseValues::kFloats, count, fill, out);
}

void AppendSparse(const SparsePair& pair, uint64_t count, const FillSparse& fill,
                  std::vector<uint8_t>* out) {
  AppendFloats(std::array{pair.low, pair.high}, out);
  AppendFilledBlocks(SparseValues::kPair, count, fill, out);
}

void AppendSparseAtLeast(const float* g, uint64_t count, float threshold,
                         std::vector<uint8_t>* out) {
  const auto block_of = [&](uint64_t first, uint64_t n) { return std::span(g + first, n); };
  AppendBlocks(SparseValues::kFloats, count, threshold, block_of, out);
}

size_t MaxSparseSize(SparseValues values, uint64_t count) {
  const auto block_size = [&](size_t length) {
    return kEntryBytes + BodySizeOf(values, length, length);
  };
  const size_t last_length = count % kSparseBlock;
  return PairSize(values) + count / kSparseBlock * block_size(kSparseBlock) +
         (last_length == 0 ? 0 : block_size(last_length));
}

Result<SparseCode> SparseCode::Parse(SparseValues values, std::span<const uint8_t> bytes,
                                     uint64_t count) {
  const auto cut_short_error = [&](uint64_t expected) {
    return Status(Code::kMismatch, "sparse code cut short: " + std::to_string(bytes.size()) +
                                       " bytes, expected " + std::to_string(expected) + " for " +
                                       std::to_string(count) + " elements");
  };
  const size_t pair_bytes = PairSize(values);
  if (bytes.size() < pair_bytes || (bytes.size() - pair_bytes) / kEntryBytes < NumBlocks(count))
    return cut_short_error(pair_bytes + kEntryBytes * NumBlocks(count));
  SparseCode code;
  code.values_ = values;
  code.count_ = count;
  if (values == SparseValues::kPair) {
    std::array<float, 2> pair;
    ReadFloats(bytes, pair);
    code.pair_ = {pair[0], pair[1]};
    TERN_RETURN_IF_ERROR(CheckPair(code.pair_));
  }
  code.directory_ = bytes.subspan(pair_bytes, kEntryBytes * NumBlocks(count));
  uint64_t code_size = pair_bytes + code.directory_.size();
  const size_t bodies_begin = code_size;
  for (uint64_t b = 0; b < NumBlocks(count); ++b) {
    if (code.NumSent(b) > code.BlockLength(b)) {
      return InvalidBlockError(b, "sends " + std::to_string(code.NumSent(b)) +
                                      " elements, it has " + std::to_string(code.BlockLength(b)));
    }
    code_size += code.BlockBodySize(b);
  }
  if (bytes.size() < code_size) return cut_short_error(code_size);
  code.bytes_ = bytes.first(code_size);
  code.bodies_ = code.bytes_.subspan(bodies_begin);
  return code;
}

size_t SparseCode::NumSent(uint64_t block) const {
  return directory_[kEntryBytes * block] | size_t{directory_[kEntryBytes * block + 1]} << 8;
}
size_t SparseCode::BlockLength(uint64_t block) const {
  return std::min(kSparseBlock, count_ - block * kSparseBlock);
}
bool SparseCode::IsDense(uint64_t block) const {
  return values_ == SparseValues::kFloats && NumSent(block) == BlockLength(block);
}
size_t SparseCode::BlockBodySize(uint64_t block) const {
  return BodySizeOf(values_, NumSent(block), BlockLength(block));
}

// What a block sends: `num_values` values, and their positions unless the block is dense.
struct SparseCode::SentValues {
  size_t num_values = 0;
  bool is_dense = false;
  SparsePositions positions;
  Block values;
};

Status SparseCode::ReadDenseBlock(uint64_t block, std::span<const uint8_t> body,
                                  float* values) const {
  const std::span<float> x(values, BlockLength(block));
  ReadFloats(body, x);
  TERN_RETURN_IF_ERROR(CheckFinite(x, block * kSparseBlock).Within("sparse code"));
  constexpr uint32_t kMinusZero = 0x80000000;
  uint32_t has_minus_zero = 0, num_zeros = 0;
  for (float v : x) {
    const auto bits = std::bit_cast<uint32_t>(v);
    has_minus_zero |= uint32_t{bits == kMinusZero};
    num_zeros += uint32_t{bits == 0};
  }
  if (has_minus_zero != 0) return InvalidBlockError(block, "has a -0");
  const auto length = static_cast<uint32_t>(x.size());
  return IsDenseBlock(length - num_zeros, length)
             ? Ok()
             : InvalidBlockError(block, "is dense, but has too few non-zeros for that");
}

Status SparseCode::ReadPositions(uint64_t block, std::span<const uint8_t> body,
                                 SentValues* sent) const {
  const size_t k = NumSent(block), length = BlockLength(block);
  sent->num_values = k;
  sent->is_dense = IsDense(block);
  if (k == 0) return Ok();
  if (sent->is_dense) return ReadDenseBlock(block, body, sent->values.data());
  if (values_ == SparseValues::kFloats && IsDenseBlock(k, length))
    return InvalidBlockError(block, "lists positions, but has too many non-zeros for that");
  if (!GetPositions(body.first(SparseFormOf(k, length).bytes), k, length, &sent->positions))
    return InvalidBlockError(block, "does not have " + std::to_string(k) + " ascending positions");
  return Ok();
}

Status SparseCode::ReadBlock(uint64_t block, std::span<const uint8_t> body,
                             SentValues* sent) const {
  TERN_RETURN_IF_ERROR(ReadPositions(block, body, sent));
  if (sent->num_values == 0 || sent->is_dense) return Ok();
  const size_t k = sent->num_values;
  const bool sends_floats = values_ == SparseValues::kFloats;
  const std::span<const uint8_t> coded_values =
      body.subspan(SparseFormOf(k, BlockLength(block)).bytes);
  if (!sends_floats && k % 8 != 0 && coded_values.back() >> (k % 8) != 0)
    return InvalidBlockError(block, "has a bit set beyond the last of its values");
  const std::span<float> values = std::span(sent->values).first(k);
  if (sends_floats) {
    ReadFloats(coded_values, values);
  } else {
    for (size_t i = 0; i < k; ++i)
      values[i] = (coded_values[i / 8] >> (i % 8) & 1) != 0 ? pair_.high : pair_.low;
  }
  const auto is_bad = [](float v) { return !std::isfinite(v) || v == 0; };
  uint32_t has_bad_value = 0;  // as wide as a value, which compilers vectorize best
  for (float v : values) has_bad_value |= uint32_t{is_bad(v)};
  if (has_bad_value == 0) return Ok();
  const auto bad_value = std::find_if(values.begin(), values.end(), is_bad);
  const uint64_t element =
      block * kSparseBlock + sent->positions[static_cast<size_t>(bad_value - values.begin())];
  return InvalidBlockError(block, "sends " + std::to_string(*bad_value) + " for element " +
                                      std::to_string(element) +
                                      ", expected a finite number that is not 0");
}

Status SparseCode::DecodeBlock(uint64_t block, std::span<const uint8_t> body, float* x) const {
  if (IsDense(block)) return ReadDenseBlock(block, body, x);
  SentValues sent;
  TERN_RETURN_IF_ERROR(ReadBlock(block, body, &sent));
  std::fill_n(x, BlockLength(block), 0.0f);
  for (size_t i = 0; i < sent.num_values; ++i) x[sent.positions[i]] = sent.values[i];
  return Ok();
}

Status SparseCode::Decode(uint64_t first, uint64_t n, float* x) const {
  if (n == 0) return Ok();
  size_t body_at = 0;
  uint64_t block = 0;
  for (; block < first / kSparseBlock; ++block) body_at += BlockBodySize(block);
  for (const uint64_t end = first + n; block * kSparseBlock < end;
       body_at += BlockBodySize(block++)) {
    const std::span<const uint8_t> body = bodies_.subspan(body_at, BlockBodySize(block));
    const uint64_t begin = block * kSparseBlock, block_end = begin + BlockLength(block);
    if (first <= begin && block_end <= end) {
      TERN_RETURN_IF_ERROR(DecodeBlock(block, body, x + (begin - first)));
      continue;
    }
    Block decoded_block;
    TERN_RETURN_IF_ERROR(DecodeBlock(block, body, decoded_block.data()));
    const uint64_t from = std::max(first, begin), to = std::min(end, block_end);
    std::copy(decoded_block.data() + (from - begin), decoded_block.data() + (to - begin),
              x + (from - first));
  }
  return Ok();
}

// Calls use(index of the first element, what is sent) for all blocks that send something, each of
// which `read` reads.
template <typename Use>
Status SparseCode::ForEachBlock(BlockReader read, Use use) const {
  SentValues sent;
  size_t body_at = 0;
  for (uint64_t block = 0; block < NumBlocks(count_); body_at += BlockBodySize(block++)) {
    if (NumSent(block) == 0) continue;
    TERN_RETURN_IF_ERROR(
        (this->*read)(block, bodies_.subspan(body_at, BlockBodySize(block)), &sent));
    use(block * kSparseBlock, sent);
  }
  return Ok();
}

Status SparseCode::Check() const {
  return ForEachBlock(&SparseCode::ReadBlock, [](uint64_t, const SentValues&) {});
}

Status SparseCode::AppendPositions(std::vector<uint32_t>* positions) const {
  const auto append = [positions](uint64_t first, const SentValues& sent) {
    const auto begin = static_cast<uint32_t>(first);
    if (!sent.is_dense) {
      const size_t num_before = positions->size();
      positions->resize(num_before + sent.num_values);
      uint32_t* const to = positions->data() + num_before;
      for (size_t i = 0; i < sent.num_values; ++i) to[i] = begin + sent.positions[i];
      return;
    }
    for (uint32_t i = 0; i < sent.num_values; ++i)
      if (sent.values[i] != 0) positions->push_back(begin + i);
  };
  return ForEachBlock(&SparseCode::ReadPositions, append);
}

Status SparseCode::AddTo(float* sum) const {
  return ForEachBlock(&SparseCode::ReadBlock, [sum](uint64_t first, const SentValues& sent) {
    for (size_t i = 0; i < sent.num_values; ++i)
      sum[first + (sent.is_dense ? i : sent.positions[i])] += sent.values[i];
  });
}

}  // namespace tern::codec
