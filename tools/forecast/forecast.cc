#include "tools/forecast/forecast.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/algorithm/algorithms.h"
#include "common/algorithm/facts.h"
#include "common/algorithm/ranks.h"
#include "common/base/text.h"
#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "common/config/uses_codec.h"

namespace tern::tools {

Result<std::unique_ptr<Forecaster>> Forecaster::Make(const std::string& job_file,
                                                     const std::vector<std::string>& overrides) {
  std::unique_ptr<Forecaster> forecaster(new Forecaster(job_file, overrides));
  auto setup = setup::MakeSetup(job_file, overrides);
  if (!setup.ok()) return setup.status();
  forecaster->job_setup_ = std::move(*setup);
  return forecaster;
}

double Forecaster::samples_per_worker() const {
  return std::max(1u, algorithm::BatchOfWorker(job_setup_->job));
}

Result<const setup::Setup*> Forecaster::SetupOf(const Variant& variant, uint32_t workers) {
  const Result<const VariantSetup*> variant_setup = VariantSetupOf(variant, workers);
  if (!variant_setup.ok()) return variant_setup.status();
  return (*variant_setup)->setup.get();
}

Result<RoundTotals> Forecaster::BytesOf(const Variant& variant, uint32_t workers) {
  const Result<const VariantSetup*> variant_setup = VariantSetupOf(variant, workers);
  if (!variant_setup.ok()) return variant_setup.status();
  RoundTotals totals = TotalsOf((*variant_setup)->sizes);
  const auto num_parts = std::max(1u, algorithm::FactsOf((*variant_setup)->setup->job).num_parts);
  totals.up /= num_parts;
  totals.down /= num_parts;
  return totals;
}

Result<Forecaster::HostBytes> Forecaster::BytesOfHost(const Variant& variant, uint32_t workers,
                                                      uint32_t workers_a_host) {
  const Result<const setup::Setup*> setup = SetupOf(variant, workers);
  if (!setup.ok()) return setup.status();
  const auto sizes = SizesOf((*setup)->plan, workers_a_host);
  if (!sizes.ok()) return sizes.status();
  HostBytes bytes{TotalsOfHost(*sizes, workers_a_host, false), std::nullopt};
  if (sizes->front().host_push_bytes.empty()) return bytes;
  bytes.with = TotalsOfHost(*sizes, workers_a_host, true);
  return bytes;
}

Result<StepForecast> Forecaster::Simulate(const StepCosts& costs, const Variant& variant,
                                          uint32_t workers, const Network& network) {
  const uint32_t workers_a_host = std::min(network.workers_a_host, workers);
  if (workers_a_host <= 1) return SimulateStep(costs, *profile_, workers, network);
  const Result<const setup::Setup*> setup = SetupOf(variant, workers);
  if (!setup.ok()) return setup.status();
  if (!(*setup)->job.exchange().host_sum()) {
    Network shared_network = network;
    shared_network.worker_mbit /= workers_a_host;
    return SimulateStep(costs, *profile_, workers, shared_network);
  }
  const auto sizes = SizesOf((*setup)->plan, workers_a_host);
  if (!sizes.ok()) return sizes.status();
  StepCosts host_costs = costs;
  const uint32_t num_hosts = (workers + workers_a_host - 1) / workers_a_host;
  host_costs.pattern.quorum = num_hosts;
  for (size_t b = 0; b < host_costs.buckets.size(); ++b) {
    std::vector<ChunkCost>& chunks = host_costs.buckets[b].chunks;
    for (size_t c = 0; c < chunks.size(); ++c) {
      chunks[c].push_bytes = (*sizes)[b].host_push_bytes[c];
      chunks[c].encode_s += workers_a_host * chunks[c].add_s + chunks[c].close_s;
    }
  }
  return SimulateStep(host_costs, *profile_, num_hosts, network);
}

// Adds overrides that remove the settings that would make the job invalid with the codec `codec`:
// exchange.error_feedback, and the settings of codecs that no tensor would use.
void Forecaster::DropCodecKeys(const std::string& codec,
                               std::vector<std::string>* overrides) const {
  overrides->push_back("exchange.error_feedback=null");
  for (const std::string& name : codec::CodecNames()) {
    bool is_used = name == config::SectionOfCodec(codec);
    for (const pb::CodecRule& rule : job_setup_->job.exchange().rules())
      is_used |= config::SectionOfCodec(rule.codec()) == name;
    if (!is_used && pb::Exchange::descriptor()->FindFieldByName(name) != nullptr)
      overrides->push_back("exchange." + name + "=null");
  }
}

Result<const Forecaster::VariantSetup*> Forecaster::VariantSetupOf(const Variant& variant,
                                                                   uint32_t workers) {
  const std::tuple key{variant, workers};
  if (const auto variant_setup = setups_.find(key); variant_setup != setups_.end())
    return &variant_setup->second;
  std::vector<std::string> variant_overrides = overrides_;
  variant_overrides.push_back("exchange.codec=" + variant.codec);
  variant_overrides.push_back(Cat("workers.count=", workers));
  // The forecast is of a job whose workers are all there and alike.
  for (const char* key : {"workers.min", "workers.max", "workers.overrides"})
    variant_overrides.push_back(std::string(key) + "=null");
  const pb::Train& train = job_setup_->job.train();
  if (algorithm::FactsOf(job_setup_->job).num_backup_workers >= workers)
    variant_overrides.push_back(
        Cat("train.", train.algorithm(), ".", algorithm::TraitsOf(train)->backup_key(), "=0"));
  if (!setup::IsClientJob(job_setup_->job)) {
    const auto samples = static_cast<uint64_t>(samples_per_worker());
    variant_overrides.push_back(Cat("train.batch_total=", samples * uint64_t{workers}));
  }
  if (variant.codec != own_variant().codec) DropCodecKeys(variant.codec, &variant_overrides);
  if (variant.algorithm != own_variant().algorithm) {
    // Keys whose default depends on the algorithm get the default of the new algorithm.
    variant_overrides.push_back("train.algorithm=" + variant.algorithm);
    for (const char* dependent_key : {"train.parameters", "exchange.scaler", "exchange.clip"})
      variant_overrides.push_back(std::string(dependent_key) + "=null");
    for (const std::string& name : algorithm::AlgorithmNames())
      if (name != variant.algorithm) variant_overrides.push_back("train." + name + "=null");
  }
  VariantSetup variant_setup_and_sizes;
  auto setup = setup::MakeSetup(job_file_, variant_overrides);
  if (!setup.ok()) return setup.status();
  variant_setup_and_sizes.setup = std::move(*setup);
  auto sizes = SizesOf(variant_setup_and_sizes.setup->plan);
  if (!sizes.ok()) return sizes.status();
  variant_setup_and_sizes.sizes = std::move(*sizes);
  return &(setups_[key] = std::move(variant_setup_and_sizes));
}

Result<StepCosts> Forecaster::ComputeCosts(const Variant& variant, uint32_t workers,
                                           double samples) {
  const Result<const VariantSetup*> variant_setup = VariantSetupOf(variant, workers);
  if (!variant_setup.ok()) return variant_setup.status();
  return CostsOf(*(*variant_setup)->setup, *profile_, (*variant_setup)->sizes, samples);
}

Result<StepForecast> Forecaster::ForecastStep(const Variant& variant, uint32_t workers,
                                              double samples, const Network& network) {
  const Result<StepCosts> costs = ComputeCosts(variant, workers, samples);
  if (!costs.ok()) return costs.status();
  return Simulate(*costs, variant, workers, network);
}

Result<Forecaster::BreakEven> Forecaster::FindBreakEven(const Variant& variant,
                                                        const Variant& other, uint32_t workers,
                                                        double samples, const Network& network) {
  const Result<StepCosts> costs = ComputeCosts(variant, workers, samples);
  if (!costs.ok()) return costs.status();
  const Result<StepCosts> other_costs = ComputeCosts(other, workers, samples);
  if (!other_costs.ok()) return other_costs.status();
  Status simulation_error;
  const auto is_shorter = [&](double mbit) {
    Network changed_network = network;
    if (changed_network.worker_mbit > 0)
      changed_network.worker_mbit *= mbit / changed_network.server_mbit;
    changed_network.server_mbit = mbit;
    const auto own_step = Simulate(*costs, variant, workers, changed_network);
    const auto other_step = Simulate(*other_costs, other, workers, changed_network);
    for (const auto& forecast : {own_step, other_step})
      if (!forecast.ok()) simulation_error = forecast.status();
    return simulation_error.ok() && own_step->step_s < other_step->step_s;
  };
  BreakEven break_even;
  double low_mbit = kMinMbit, high_mbit = kMaxMbit;
  if (is_shorter(low_mbit)) {
    break_even.is_shorter_at_every_rate = is_shorter(high_mbit);
    while (!break_even.is_shorter_at_every_rate && high_mbit / low_mbit > 1.01) {
      const double middle_mbit = std::sqrt(low_mbit * high_mbit);
      (is_shorter(middle_mbit) ? low_mbit : high_mbit) = middle_mbit;
    }
    if (!break_even.is_shorter_at_every_rate) break_even.mbit = std::sqrt(low_mbit * high_mbit);
  }
  if (!simulation_error.ok()) return simulation_error;
  return break_even;
}

}  // namespace tern::tools
