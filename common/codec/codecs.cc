// The table of all codecs, one line per codec, and the functions that look codecs up in it.
#include "common/codec/codecs.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/base/text.h"
#include "common/codec/error_feedback.h"
#include "common/codec/integer_wire.h"
#include "common/codec/makers.h"

namespace tern::codec {
namespace {

using CodecResult = Result<std::unique_ptr<Codec>>;

Status CheckClipSigma(const Options& options) {
  if (options.clip_sigma > 0 && std::isfinite(options.clip_sigma)) return Ok();
  return Status(Code::kBadJob, "exchange.clip_sigma is " + std::to_string(options.clip_sigma) +
                                   ", expected a finite number above 0 (the paper uses 2.5)");
}

CodecResult MakeAnyTernary(const IntegerWire& wire, const Options& options) {
  TERN_RETURN_IF_ERROR(CheckClipSigma(options));
  if (options.clip == Clip::kGrace && !options.scaler_per_worker) {
    return Status(Code::kBadJob,
                  "exchange.clip is grace, which is defined for scalers per worker only: set "
                  "exchange.scaler to "
                  "per_worker, or exchange.clip to paper");
  }
  return options.scaler_per_worker ? MakeTernaryPerWorker(options, wire)
                                   : MakeIntegerCodec(options, wire);
}

CodecResult MakeAnyQsgdShared(const Options& options, bool entropy_coded) {
  TERN_RETURN_IF_ERROR(CheckClipSigma(options));
  return MakeQsgdShared(options, entropy_coded);
}

// What a worker can compute on its GPU for a codec (worker/device/codecs.h): nothing, the codes of
// gradients, or the codes and the codec's memory.
enum class DeviceSupport { kNothing, kCodes, kCodesAndMemory };

struct CodecEntry {
  const char* name;
  CodecResult (*make)(const Options& options);
  DeviceSupport device_support = DeviceSupport::kNothing;
};

const CodecEntry kTable[] = {
    {"fp32", [](const Options&) -> CodecResult { return MakeFp32(); }, DeviceSupport::kCodes},
    {"fp16", [](const Options&) -> CodecResult { return MakeFp16(); }, DeviceSupport::kCodes},
    {"bf16", [](const Options&) -> CodecResult { return MakeBf16(); }, DeviceSupport::kCodes},
    {"ternary", [](const Options& options) { return MakeAnyTernary(MaskSignsWire(), options); },
     DeviceSupport::kCodes},
    {"ternary_2bit", [](const Options& options) { return MakeAnyTernary(TwoBitWire(), options); }},
    {"ternary_trit5", [](const Options& options) { return MakeAnyTernary(Trit5Wire(), options); }},
    {"ternary_ans", [](const Options& options) { return MakeAnyTernary(AnsWire(), options); }},
    {"qsgd", MakeQsgd, DeviceSupport::kCodes},
    {"onebit", MakeOneBit, DeviceSupport::kCodesAndMemory},
    {"topk", MakeTopK, DeviceSupport::kCodesAndMemory},
    {"threshold", MakeThreshold},
    {"adaptive", MakeAdaptive},
    {"adacomp", MakeAdaComp},
    {"qsgd_shared", [](const Options& options) { return MakeAnyQsgdShared(options, false); }},
    {"qsgd_shared_ans", [](const Options& options) { return MakeAnyQsgdShared(options, true); }},
};

}  // namespace

const std::vector<std::string>& CodecNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> table_names;
    for (const CodecEntry& entry : kTable) table_names.emplace_back(entry.name);
    return table_names;
  }();
  return names;
}

bool CanDecodeAlone(std::string_view name) {
  Options options;
  options.scaler_per_worker = true;
  const CodecResult codec = MakeCodec(name, options);
  return codec.ok() && !(*codec)->shares_scaler();
}

bool CanEncodeOnDevice(const Codec& codec) {
  const DeviceSupport needed_support =
      codec.HasMemory() ? DeviceSupport::kCodesAndMemory : DeviceSupport::kCodes;
  return std::any_of(std::begin(kTable), std::end(kTable), [&](const CodecEntry& entry) {
    return entry.name == codec.unrotated_name() && entry.device_support == needed_support;
  });
}

Result<std::unique_ptr<Codec>> MakeCodec(std::string_view name, const Options& options) {
  for (const CodecEntry& entry : kTable) {
    if (entry.name != name) continue;
    CodecResult codec = entry.make(options);
    if (codec.ok() && options.rotate != 0 && (*codec)->is_stochastic())
      codec = WithRotation(options, std::move(*codec));
    if (!codec.ok() || !options.error_feedback || name == "fp32") return codec;
    return WithErrorFeedback(std::move(*codec));
  }
  return Status(Code::kBadJob, "there is no codec '" + std::string(name) +
                                   "'; known codecs: " + Join(CodecNames()));
}

}  // namespace tern::codec
