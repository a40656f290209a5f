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

// What a GPU's worker can do with a codec where the gradients lie (worker/device/codecs.cc).
enum class OnDevice { kNothing, kCodes, kCodesAndKeeps };

struct Row {
  const char* name;
  Made (*make)(const Options& options);
  OnDevice on_device = OnDevice::kNothing;
};

const Row kTable[] = {
    {"fp32", [](const Options&) -> Made { return MakeFp32(); }, OnDevice::kCodes},
    {"fp16", [](const Options&) -> Made { return MakeFp16(); }, OnDevice::kCodes},
    {"bf16", [](const Options&) -> Made { return MakeBf16(); }, OnDevice::kCodes},
    {"ternary", [](const Options& o) { return MakeAnyTernary(MaskSignsWire(), o); },
     OnDevice::kCodes},
    {"ternary_2bit", [](const Options& o) { return MakeAnyTernary(TwoBitWire(), o); }},
    {"ternary_trit5", [](const Options& o) { return MakeAnyTernary(Trit5Wire(), o); }},
    {"ternary_ans", [](const Options& o) { return MakeAnyTernary(AnsWire(), o); }},
    {"qsgd", MakeQsgd, OnDevice::kCodes},
    {"onebit", MakeOneBit, OnDevice::kCodesAndKeeps},
    {"topk", MakeTopK, OnDevice::kCodesAndKeeps},
    {"threshold", MakeThreshold},
    {"adaptive", MakeAdaptive},
    {"adacomp", MakeAdaComp},
};

}  // namespace

const std::vector<std::string>& CodecNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Row& row : kTable) all.emplace_back(row.name);
    return all;
  }();
  return names;
}

bool HasDeviceForm(const Codec& codec) {
  const OnDevice keeps_or_not =
      codec.NewMemory(1) != nullptr ? OnDevice::kCodesAndKeeps : OnDevice::kCodes;
  return std::any_of(std::begin(kTable), std::end(kTable), [&](const Row& row) {
    return row.name == codec.name() && row.on_device == keeps_or_not;
  });
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
