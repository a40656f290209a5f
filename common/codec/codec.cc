#include "common/codec/codec.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/text.h"
#include "common/codec/codecs.h"
#include "common/codec/error_feedback.h"
#include "common/codec/ternary_wire.h"

namespace tern::codec {
namespace {

using Made = Result<std::unique_ptr<Codec>>;

Made MakeAnyTernary(const TernaryWire& wire, const Options& options) {
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
  return options.scaler_per_worker ? MakeTernaryPerWorker(options, wire)
                                   : MakeTernary(options, wire);
}

struct Row {
  const char* name;
  Made (*make)(const Options& options);
};

const Row kTable[] = {
    {"fp32", [](const Options&) -> Made { return MakeFp32(); }},
    {"fp16", [](const Options&) -> Made { return MakeFp16(); }},
    {"bf16", [](const Options&) -> Made { return MakeBf16(); }},
    {"ternary", [](const Options& o) { return MakeAnyTernary(MaskSignsWire(), o); }},
    {"ternary_2bit", [](const Options& o) { return MakeAnyTernary(TwoBitWire(), o); }},
    {"ternary_trit5", [](const Options& o) { return MakeAnyTernary(Trit5Wire(), o); }},
    {"ternary_ans", [](const Options& o) { return MakeAnyTernary(AnsWire(), o); }},
    {"qsgd", MakeQsgd},
    {"onebit", MakeOneBit},
    {"topk", MakeTopK},
    {"threshold", MakeThreshold},
    {"adaptive", MakeAdaptive},
    {"adacomp", MakeAdaComp},
};

}  // namespace

Result<size_t> Codec::DecodeAlone(std::span<const uint8_t> code, const Segment& segment,
                                  float* values) const {
  size_t size = 0;
  std::vector<uint8_t> sum;
  if (!CodeIsSum()) {
    const std::unique_ptr<Accumulator> alone = NewAccumulator(segment, 1);
    Result<size_t> added = alone->Add(0, code);
    if (!added.ok()) return added;
    size = *added;
    alone->EncodeSum(&sum);
  } else {
    Result<size_t> part = SumPart(code, segment, 1);
    if (!part.ok()) return part;
    size = *part;
  }
  const std::span<const uint8_t> from =
      CodeIsSum() ? code.first(size) : std::span<const uint8_t>(sum);
  TERN_RETURN_IF_ERROR(Decode(from, segment, 1, 0, 0, segment.count, values));
  return size;
}

Result<size_t> Codec::DecodeAloneTo(std::span<const uint8_t> code, const Segment& segment,
                                    const Use& use) const {
  if (CodeIsSum()) {
    Result<size_t> size = SumPart(code, segment, 1);
    if (size.ok()) TERN_RETURN_IF_ERROR(DecodeTo(code.first(*size), segment, 1, 0, use));
    return size;
  }
  std::vector<float> values(segment.count);
  Result<size_t> size = DecodeAlone(code, segment, values.data());
  if (size.ok()) use(0, values);
  return size;
}

Status Codec::DecodeTo(std::span<const uint8_t> sum, const Segment& segment, int contributors,
                       float scaler, const Use& use) const {
  std::array<float, 16384> mean;  // a few blocks of what is coded in blocks
  for (uint64_t at = 0; at < segment.count; at += mean.size()) {
    const uint64_t n = std::min<uint64_t>(mean.size(), segment.count - at);
    TERN_RETURN_IF_ERROR(Decode(sum, segment, contributors, scaler, at, n, mean.data()));
    use(at, std::span(mean).first(n));
  }
  return Ok();
}

Result<size_t> Codec::SumPart(std::span<const uint8_t> bytes, const Segment& segment,
                              int contributors) const {
  const size_t size = MaxSumSize(segment, contributors);
  if (bytes.size() >= size) return size;
  return Status(Code::kMismatch, std::string(name()) + " sum of " + std::to_string(bytes.size()) +
                                     " bytes, expected " + std::to_string(size) + " for " +
                                     std::to_string(segment.count) + " elements");
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
    if (row.name != name) continue;
    Made made = row.make(options);
    if (!made.ok() || !options.error_feedback || name == "fp32") return made;
    return WithErrorFeedback(std::move(*made));
  }
  return Status(Code::kBadJob, "there is no codec '" + std::string(name) +
                                   "'; known codecs: " + Join(CodecNames()));
}

}  // namespace tern::codec
