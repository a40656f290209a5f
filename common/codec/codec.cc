#include "common/codec/codec.h"

#include <cmath>

#include "common/base/text.h"
#include "common/codec/codecs.h"

namespace tern::codec {
namespace {

using Made = Result<std::unique_ptr<Codec>>;

Made MakeAnyTernary(const Options& options) {
  if (!(options.clip_sigma > 0) || !std::isfinite(options.clip_sigma)) {
    return Status(Code::kBadJob, "exchange.clip_sigma is " + std::to_string(options.clip_sigma) +
                                     ", expected a finite number above 0 (the paper uses 2.5)");
  }
  if (options.clip == Clip::kGrace && !options.scaler_per_worker) {
    return Status(Code::kBadJob,
                  "exchange.clip is grace, which is defined for scalers per worker only: set "
                  "exchange.scaler to "
                  "per_worker, or exchange.clip to paper");
  }
  return options.scaler_per_worker ? MakeTernaryPerWorker(options) : MakeTernary(options);
}

struct Row {
  const char* name;
  Made (*make)(const Options& options);
};

const Row kTable[] = {
    {"fp32", [](const Options&) -> Made { return MakeFp32(); }},
    {"fp16", [](const Options&) -> Made { return MakeFp16(); }},
    {"bf16", [](const Options&) -> Made { return MakeBf16(); }},
    {"ternary", MakeAnyTernary},
};

}  // namespace

Result<size_t> Codec::DecodeAlone(std::span<const uint8_t> code, uint64_t count,
                                  float* values) const {
  size_t size = SumSize(count, 1);
  std::vector<uint8_t> sum;
  if (!CodeIsSum()) {
    const std::unique_ptr<Accumulator> alone = NewAccumulator(count, 1);
    Result<size_t> added = alone->Add(0, code);
    if (!added.ok()) return added;
    size = *added;
    alone->EncodeSum(&sum);
  } else if (code.size() < size) {
    return Status(Code::kMismatch, std::string(name()) +
                                       " code cut short: " + std::to_string(code.size()) +
                                       " bytes, expected " + std::to_string(size));
  }
  const std::span<const uint8_t> from =
      CodeIsSum() ? code.first(size) : std::span<const uint8_t>(sum);
  TERN_RETURN_IF_ERROR(Decode(from, count, 1, 0, 0, count, values));
  return size;
}

const std::vector<std::string>& CodecNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Row& row : kTable) all.emplace_back(row.name);
    return all;
  }();
  return names;
}

Result<std::unique_ptr<Codec>> MakeCodec(std::string_view name, const Options& options) {
  for (const Row& row : kTable) {
    if (row.name == name) return row.make(options);
  }
  return Status(Code::kBadJob, "there is no codec '" + std::string(name) +
                                   "'; known codecs: " + Join(CodecNames()));
}

}  // namespace tern::codec
