#include "tools/forecast/forecast.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/algorithm/algorithms.h"
#include "common/base/text.h"
#include "common/codec/codec.h"
#include "common/codec/codecs.h"

namespace tern::tools {

Result<std::unique_ptr<Forecaster>> Forecaster::Make(const std::string& job,
                                                     const std::vector<std::string>& overrides) {
  std::unique_ptr<Forecaster> forecaster(new Forecaster(job, overrides));
  auto setup = setup::MakeSetup(job, overrides);
  if (!setup.ok()) return setup.status();
  forecaster->job_ = std::move(*setup);
  return forecaster;
}

double Forecaster::samples() const {
  return std::max(1u, job_->job.train().batch_total() / job_->plan.workers);
}

Result<const setup::Setup*> Forecaster::SetupOf(const Way& way, uint32_t workers) {
  const Result<const Case*> found = CaseOf(way, workers);
  if (!found.ok()) return found.status();
  return (*found)->setup.get();
}

Result<RoundTotals> Forecaster::BytesOf(const Way& way, uint32_t workers) {
  const Result<const Case*> found = CaseOf(way, workers);
  if (!found.ok()) return found.status();
  return TotalsOf((*found)->sizes);
}

// Keys of the job's codec would be refused where no tensor goes by it.
void Forecaster::DropCodecKeys(const std::string& codec,
                               std::vector<std::string>* overrides) const {
  overrides->push_back("exchange.error_feedback=null");
  for (const std::string& name : codec::CodecNames()) {
    bool used = name == codec;
    for (const pb::CodecRule& rule : job_->job.exchange().rules()) used |= rule.codec() == name;
    if (!used && pb::Exchange::descriptor()->FindFieldByName(name) != nullptr)
      overrides->push_back("exchange." + name + "=null");
  }
}

Result<const Forecaster::Case*> Forecaster::CaseOf(const Way& way, uint32_t workers) {
  const std::tuple key{way, workers};
  if (const auto found = cases_.find(key); found != cases_.end()) return &found->second;
  std::vector<std::string> overrides = overrides_;
  overrides.push_back("exchange.codec=" + way.codec);
  overrides.push_back(Cat("workers.count=", workers));
  overrides.push_back("train.batch_total=" +
                      Cat(static_cast<uint64_t>(samples()) * uint64_t{workers}));
  if (way.codec != own_way().codec) DropCodecKeys(way.codec, &overrides);
  if (way.algorithm != own_way().algorithm) {
    // What another algorithm needs, or has by default, is its own.
    overrides.push_back("train.algorithm=" + way.algorithm);
    for (const char* key_of_own : {"train.parameters", "exchange.scaler", "exchange.clip"})
      overrides.push_back(std::string(key_of_own) + "=null");
    for (const std::string& name : algorithm::AlgorithmNames())
      if (name != way.algorithm) overrides.push_back("train." + name + "=null");
  }
  Case made;
  auto setup = setup::MakeSetup(file_, overrides);
  if (!setup.ok()) return setup.status();
  made.setup = std::move(*setup);
  auto sizes = SizesOf(made.setup->plan);
  if (!sizes.ok()) return sizes.status();
  made.sizes = std::move(*sizes);
  return &(cases_[key] = std::move(made));
}

Result<StepCosts> Forecaster::Costs(const Way& way, uint32_t workers, double samples) {
  const Result<const Case*> found = CaseOf(way, workers);
  if (!found.ok()) return found.status();
  return CostsOf(*(*found)->setup, *profile_, (*found)->sizes, samples);
}

Result<StepForecast> Forecaster::Step(const Way& way, uint32_t workers, double samples,
                                      const Network& network) {
  const Result<StepCosts> costs = Costs(way, workers, samples);
  if (!costs.ok()) return costs.status();
  return PlayStep(*costs, *profile_, workers, network);
}

Result<Forecaster::Crossing> Forecaster::PaysBelow(const Way& way, const Way& other,
                                                   uint32_t workers, double samples,
                                                   const Network& network) {
  const Result<StepCosts> costs = Costs(way, workers, samples);
  if (!costs.ok()) return costs.status();
  const Result<StepCosts> others = Costs(other, workers, samples);
  if (!others.ok()) return others.status();
  Status fault;
  const auto shorter = [&](double mbit) {
    Network at = network;
    if (at.worker_mbit > 0) at.worker_mbit *= mbit / at.server_mbit;
    at.server_mbit = mbit;
    const auto mine = PlayStep(*costs, *profile_, workers, at);
    const auto theirs = PlayStep(*others, *profile_, workers, at);
    for (const auto& forecast : {mine, theirs})
      if (!forecast.ok()) fault = forecast.status();
    return fault.ok() && mine->step_s < theirs->step_s;
  };
  Crossing crossing;
  double pays = kLeastMbit, does_not = kMostMbit;
  if (shorter(pays)) {
    crossing.always = shorter(does_not);
    while (!crossing.always && does_not / pays > 1.01) {
      const double middle = std::sqrt(pays * does_not);
      (shorter(middle) ? pays : does_not) = middle;
    }
    if (!crossing.always) crossing.mbit = std::sqrt(pays * does_not);
  }
  if (!fault.ok()) return fault;
  return crossing;
}

}  // namespace tern::tools
