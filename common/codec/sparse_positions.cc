#include "common/codec/sparse_positions.h"

#include <algorithm>
#include <cstring>

namespace tern::codec {
namespace {

using kernels::SparseForm;
using kernels::SparseFormOf;

// The eight bytes of `row` from `byte` on as a number; bytes beyond its end count as 0.
uint64_t WordAt(std::span<const uint8_t> row, size_t byte) {
  uint64_t word = 0;
  if (byte + sizeof word <= row.size()) {
    std::memcpy(&word, &row[byte], sizeof word);
  } else {
    for (size_t i = byte; i < row.size(); ++i) word |= uint64_t{row[i]} << 8 * (i - byte);
  }
  return word;
}

// Sets the bits of `row` from `byte` on that are set in `word`. REQUIRES that the row has them.
void SetBits(std::span<uint8_t> row, size_t byte, uint64_t word) {
  if (byte + sizeof word <= row.size()) {
    word |= WordAt(row, byte);
    std::memcpy(&row[byte], &word, sizeof word);
    return;
  }
  for (size_t i = byte; word != 0; ++i, word >>= 8) row[i] |= static_cast<uint8_t>(word);
}

// The low bits of so many positions are written and read at once: they begin at half a byte at the
// latest, so that they and the bits before them fit into 64 bits.
constexpr size_t kLowGroup = 4;
constexpr size_t kMaxLowBits = 12;
static_assert(kernels::kSparseBlock == 1 << kMaxLowBits);
static_assert(kLowGroup * kMaxLowBits + 4 <= 64);

// Calls use(first, n) for the groups of k positions, the last of which may be shorter.
template <typename Use>
void ForLowGroups(size_t k, const Use& use) {
  size_t first = 0;
  for (; first + kLowGroup <= k; first += kLowGroup) use(first, kLowGroup);
  use(first, k - first);
}

}  // namespace

void PutPositions(std::span<const uint16_t> positions, std::span<const uint8_t> is_sent,
                  size_t length, std::span<uint8_t> row) {
  const SparseForm form = SparseFormOf(positions.size(), length);
  if (form.is_bitmap) {
    std::copy(is_sent.begin(), is_sent.end(), row.begin());
    return;
  }
  const uint32_t low_mask = (1u << form.low_bits) - 1;
  ForLowGroups(positions.size(), [&](size_t first, size_t n) {
    uint64_t word = 0;
    for (size_t i = n; i-- > 0;) word = word << form.low_bits | (positions[first + i] & low_mask);
    const size_t at = first * form.low_bits;
    SetBits(row, at / 8, word << (at % 8));
  });
  const size_t high_bits_at = positions.size() * form.low_bits;
  uint64_t word = 0;
  size_t word_at = high_bits_at / 8 * 8;
  for (size_t i = 0; i < positions.size(); ++i) {
    const size_t at = high_bits_at + (positions[i] >> form.low_bits) + i;
    if (at >= word_at + 64) {
      SetBits(row, word_at / 8, word);
      word = 0;
      word_at = at / 8 * 8;
    }
    word |= uint64_t{1} << (at - word_at);
  }
  SetBits(row, word_at / 8, word);
}

bool GetPositions(std::span<const uint8_t> row, size_t k, size_t length,
                  SparsePositions* positions) {
  const SparseForm form = SparseFormOf(k, length);
  const size_t high_bits_at = form.is_bitmap ? 0 : k * form.low_bits;
  if (form.bits % 8 != 0 && row.back() >> (form.bits % 8) != 0) return false;
  // No form has more bits than a block has elements, so that there is room for all ones.
  if (kernels::ListOnes(row.data(), high_bits_at, form.bits, positions->data()) != k) return false;
  if (form.is_bitmap) return true;
  const uint32_t low_mask = (1u << form.low_bits) - 1;
  ForLowGroups(k, [&](size_t first, size_t n) {
    const size_t at = first * form.low_bits;
    uint64_t word = WordAt(row, at / 8) >> (at % 8);
    for (size_t i = first; i < first + n; ++i, word >>= form.low_bits)
      (*positions)[i] =
          static_cast<uint16_t>(((*positions)[i] - i) << form.low_bits | (word & low_mask));
  });
  uint16_t descends = 0;  // as wide as a position, which compilers vectorize best
  for (size_t i = 1; i < k; ++i) descends |= uint16_t{(*positions)[i - 1] >= (*positions)[i]};
  return descends == 0 && (*positions)[k - 1] < length;
}

}  // namespace tern::codec
