#include "common/protocol/plan/codec_options.h"

#include <algorithm>
#include <string>

#include "common/algorithm/facts.h"
#include "common/algorithm/ranks.h"
#include "common/codec/codecs.h"

namespace tern::protocol {

namespace {

codec::Clip ClipOf(pb::Exchange::Clip clip) {
  switch (clip) {
    case pb::Exchange::paper:
      break;
    case pb::Exchange::official:
      return codec::Clip::kOfficial;
    case pb::Exchange::grace:
      return codec::Clip::kGrace;
    case pb::Exchange::none:
      return codec::Clip::kNone;
  }
  return codec::Clip::kPaper;
}

// The number of a worker's steps that one of its pushes contains.
uint64_t StepsPerPush(const pb::Job& job) {
  const algorithm::Facts facts = algorithm::FactsOf(job);
  return facts.pushed_quantity == pb::AlgorithmTraits::change ? facts.steps_a_push() : 1;
}

codec::Options::Qsgd QsgdOf(const pb::Job& job) {
  const pb::Qsgd& settings = job.exchange().qsgd();
  using Qsgd = codec::Options::Qsgd;
  Qsgd options;
  options.bits = static_cast<int>(settings.bits());
  options.bucket = settings.bucket_elements();
  options.norm = settings.norm() == pb::Qsgd::two ? Qsgd::Norm::kTwo : Qsgd::Norm::kMax;
  options.layout =
      settings.layout() == pb::Qsgd::intervals ? Qsgd::Layout::kIntervals : Qsgd::Layout::kSign;
  constexpr Qsgd::Levels kLevels[] = {Qsgd::Levels::kBits, Qsgd::Levels::kGiven,
                                      Qsgd::Levels::kSqrtN, Qsgd::Levels::kSqrtMN,
                                      Qsgd::Levels::kSqrtMPN};
  options.levels = kLevels[settings.levels()];
  options.s = settings.s();
  options.samples = algorithm::BatchOfWorker(job);
  options.local_steps = StepsPerPush(job);
  options.exact_sums = settings.sums() == pb::Qsgd::exact;
  return options;
}

codec::Options::TopK TopKOf(const pb::TopK& settings) {
  codec::Options::TopK options;
  options.ratio = settings.ratio();
  options.sample_ratio = settings.sample_ratio();
  options.resample = settings.resample();
  options.momentum = settings.momentum();
  options.nesterov = settings.nesterov();
  options.masking = settings.masking();
  options.clip_norm = settings.clip_norm();
  options.warmup_rounds = settings.warmup_rounds();
  options.warmup_ratio = settings.warmup_ratio();
  return options;
}

}  // namespace

codec::Options CodecOptions(const pb::Job& job) {
  const pb::Exchange& exchange = job.exchange();
  codec::Options options;
  options.clip = ClipOf(exchange.clip());
  options.clip_sigma = exchange.clip_sigma();
  options.scaler_per_worker = exchange.scaler() == pb::Exchange::per_worker;
  options.scaler_elements = exchange.scaler_elements();
  options.rotate = exchange.rotate();
  options.seed = job.seed();
  options.error_feedback = exchange.error_feedback();
  // Servers that hold the parameters use the sums themselves and send no coded sum.
  options.coded_sums = job.train().parameters() != pb::Train::central;
  options.keys = exchange;
  options.qsgd = QsgdOf(job);
  options.topk = TopKOf(exchange.topk());
  return options;
}

bool WorkersFormTerm(const pb::Job& job) {
  const auto sends_values = [&job](const std::string& name) {
    const auto codec = codec::MakeCodec(name, CodecOptions(job));
    return codec.ok() && codec::SendsValues(**codec);
  };
  const auto& rules = job.exchange().rules();
  const bool pushes_values =
      sends_values(job.exchange().codec()) &&
      std::all_of(rules.begin(), rules.end(),
                  [&](const pb::CodecRule& rule) { return sends_values(rule.codec()); });
  return algorithm::FactsOf(job).WorkersFormTerm(pushes_values);
}

}  // namespace tern::protocol
