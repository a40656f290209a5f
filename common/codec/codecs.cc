// The table of the codecs: one line each.
#include "common/codec/codecs.h"

#include <cmath>

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
