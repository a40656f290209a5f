// Forecasts a job with other algorithms, codecs and numbers of workers, for `tern forecast`.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/status.h"
#include "setup/setup.h"
#include "tools/forecast/profile.h"
#include "tools/forecast/sizes.h"
#include "tools/forecast/step_simulation.h"

namespace tern::tools {

// An algorithm and a codec for the job.
struct Variant {
  std::string algorithm, codec;
  auto operator<=>(const Variant&) const = default;
};

class Forecaster {
 public:
  // `job_file`: the path of a job file. `overrides`: settings "KEY=VALUE" that replace those of the
  // file. Returns kBadJob if the job is invalid; the message lists all faults.
  static Result<std::unique_ptr<Forecaster>> Make(const std::string& job_file,
                                                  const std::vector<std::string>& overrides);

  const setup::Setup& job() const { return *job_setup_; }
  // The algorithm and the codec that the job itself has.
  Variant own_variant() const {
    return {job_setup_->job.train().algorithm(), job_setup_->job.exchange().codec()};
  }
  // The job's total batch divided by its number of workers, at least 1.
  double samples_per_worker() const;

  // Returns the setup of a variant with `workers` workers, each with samples_per_worker() samples.
  // Returns kBadJob if such a job is invalid.
  Result<const setup::Setup*> SetupOf(const Variant& variant, uint32_t workers);
  // Returns the bytes that one worker sends and receives in a round; if rounds exchange one part of
  // the model each, their mean over the parts.
  Result<RoundTotals> BytesOf(const Variant& variant, uint32_t workers);
  // What the link of a host with so many workers carries in a round: without exchange.host_sum, and
  // with it if the job could have it.
  struct HostBytes {
    RoundTotals without;
    std::optional<RoundTotals> with;
  };
  Result<HostBytes> BytesOfHost(const Variant& variant, uint32_t workers, uint32_t workers_a_host);

  // Must be called before the functions below. `profile` must outlive this object.
  void UseProfile(const Profile& profile) { profile_ = &profile; }
  Result<StepCosts> ComputeCosts(const Variant& variant, uint32_t workers, double samples);
  // Simulates a step of these costs of the variant on `network`. Workers of one host share its link
  // evenly. With exchange.host_sum, a host is simulated as one worker that sends the sums; what its
  // leader needs to add them up counts as encoding.
  Result<StepForecast> Simulate(const StepCosts& costs, const Variant& variant, uint32_t workers,
                                const Network& network);
  // Simulates a step on `network`.
  Result<StepForecast> ForecastStep(const Variant& variant, uint32_t workers, double samples,
                                    const Network& network);

  // FindBreakEven searches between these rates.
  static constexpr double kMinMbit = 0.1, kMaxMbit = 1e6;
  struct BreakEven {
    std::optional<double> mbit;
    // If mbit is empty: true if a step of `variant` is shorter even at kMaxMbit, false if it is not
    // shorter even at kMinMbit.
    bool is_shorter_at_every_rate = false;
  };
  // Finds the rate of the servers' links, in Mbit/s, below which a step of `variant` is shorter
  // than a step of `other`. A bisection finds the rate to within 1 %. If the workers' links have a
  // limited rate, it is scaled by the same factor. If no rate between kMinMbit and kMaxMbit is a
  // break-even, only `is_shorter_at_every_rate` is set.
  Result<BreakEven> FindBreakEven(const Variant& variant, const Variant& other, uint32_t workers,
                                  double samples, const Network& network);

 private:
  struct VariantSetup {
    std::unique_ptr<setup::Setup> setup;
    std::vector<BucketBytes> sizes;
  };
  Forecaster(std::string file, std::vector<std::string> overrides)
      : job_file_(std::move(file)), overrides_(std::move(overrides)) {}
  void DropCodecKeys(const std::string& codec, std::vector<std::string>* overrides) const;
  Result<const VariantSetup*> VariantSetupOf(const Variant& variant, uint32_t workers);

  const std::string job_file_;
  const std::vector<std::string> overrides_;
  std::unique_ptr<setup::Setup> job_setup_;
  const Profile* profile_ = nullptr;
  std::map<std::tuple<Variant, uint32_t>, VariantSetup> setups_;
};

}  // namespace tern::tools
