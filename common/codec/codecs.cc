// The table of the codecs: one line each.
#include "common/codec/codecs.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/base/text.h"
#include "common/codec/error_feedback.h"
#include "common/codec/makers.h"
#include "common/codec/ternary_wire.h"

namespace tern::codec {
namespace {

using CodecResult = Result<std::unique_ptr<Codec>>;

CodecResult MakeAnyTernary(const TernaryWire& wire, const Options& options) {
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

// How much of a codec a worker can run on its GPU, directly on the gradients there
// (worker/device/codecs.h): nothing, codes, or codes and memory.
enum class DeviceSupport { kNothing, kCodes, kCodesAndMemory };

struct CodecEntry {
  const char* name;
  CodecResult (*make)(const Options& options);
  DeviceSupport on_device = DeviceSupport::kNothing;
};

const CodecEntry kTable[] = {
    {"fp32", [](const Options&) -> CodecResult { return MakeFp32(); }, DeviceSupport::kCodes},
    {"fp16", [](const Options&) -> CodecResult { return MakeFp16(); }, DeviceSupport::kCodes},
    {"bf16", [](const Options&) -> CodecResult { return MakeBf16(); }, DeviceSupport::kCodes},
    {"ternary", [](const Options& o) { return MakeAnyTernary(MaskSignsWire(), o); },
     DeviceSupport::kCodes},
    {"ternary_2bit", [](const Options& o) { return MakeAnyTernary(TwoBitWire(), o); }},
    {"ternary_trit5", [](const Options& o) { return MakeAnyTernary(Trit5Wire(), o); }},
    {"ternary_ans", [](const Options& o) { return MakeAnyTernary(AnsWire(), o); }},
    {"qsgd", MakeQsgd, DeviceSupport::kCodes},
    {"onebit", MakeOneBit, DeviceSupport::kCodesAndMemory},
    {"topk", MakeTopK, DeviceSupport::kCodesAndMemory},
    {"threshold", MakeThreshold},
    {"adaptive", MakeAdaptive},
    {"adacomp", MakeAdaComp},
};

}  // namespace

const std::vector<std::string>& CodecNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const CodecEntry& entry : kTable) all.emplace_back(entry.name);
    return all;
  }();
  return names;
}

bool HasDeviceForm(const Codec& codec) {
  const DeviceSupport needed =
      codec.NewMemory(1) != nullptr ? DeviceSupport::kCodesAndMemory : DeviceSupport::kCodes;
  return std::any_of(std::begin(kTable), std::end(kTable), [&](const CodecEntry& entry) {
    return entry.name == codec.name() && entry.on_device == needed;
  });
}

Result<std::unique_ptr<Codec>> MakeCodec(std::string_view name, const Options& options) {
  for (const CodecEntry& entry : kTable) {
    if (entry.name != name) continue;
    CodecResult made = entry.make(options);
    if (!made.ok() || !options.error_feedback || name == "fp32") return made;
    return WithErrorFeedback(std::move(*made));
  }
  return Status(Code::kBadJob, "there is no codec '" + std::string(name) +
                                   "'; known codecs: " + Join(CodecNames()));
}

}  // namespace tern::codec
