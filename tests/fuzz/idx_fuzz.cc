// Fuzzes the parser of IDX files (the format of MNIST), plain and compressed with gzip.
#include <cstdint>
#include <string>

#include "worker/data/gzip.h"
#include "worker/data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto parse = [](const std::string& idx) {
    const auto array = tern::data::ParseIdx(idx, "fuzz");
    if (!array.ok()) return;
    uint64_t num_values = 1;
    for (const uint32_t dim : array->dims) num_values *= dim;
    if (num_values != array->values.size()) __builtin_trap();
  };
  parse(bytes);
  constexpr uint64_t kMaxUnpackedBytes = 1 << 20;
  const auto unpacked = tern::data::Gunzip(bytes, "fuzz", kMaxUnpackedBytes);
  if (!unpacked.ok()) return 0;
  if (unpacked->size() > kMaxUnpackedBytes) __builtin_trap();
  parse(*unpacked);
  for (const uint64_t num_bytes : {uint64_t{0}, uint64_t{20}, kMaxUnpackedBytes}) {
    const auto begin = tern::data::GunzipBegin(bytes, "fuzz", num_bytes);
    if (!begin.ok() || *begin != unpacked->substr(0, num_bytes)) __builtin_trap();
  }
  return 0;
}
