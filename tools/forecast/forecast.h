// Forecasts a job with other algorithms, codecs and numbers of workers, for `tern predict`.
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

struct Variant {
  std::string algorithm, codec;
  auto operator<=>(const Variant&) const = default;
};

class Forecaster {
 public:
  // kBadJob, with the faults that `tern check` reports.
  static Result<std::unique_ptr<Forecaster>> Make(const std::string& job,
                                                  const std::vector<std::string>& overrides);

  const setup::Setup& job() const { return *job_; }
  Variant own_variant() const {
    return {job_->job.train().algorithm(), job_->job.exchange().codec()};
  }
  // Samples per worker and step of the job as its file describes it.
  double samples() const;

  // The setup of a variant with `workers` workers, each with samples() samples. kBadJob if the
  // job's rules refuse it.
  Result<const setup::Setup*> SetupOf(const Variant& variant, uint32_t workers);
  // The bytes of one worker in a round.
  Result<RoundTotals> BytesOf(const Variant& variant, uint32_t workers);

  // REQUIRED before Costs, Step and FindBreakEven. `profile` outlives this.
  void UseProfile(const Profile& profile) { profile_ = &profile; }
  Result<StepCosts> Costs(const Variant& variant, uint32_t workers, double samples);
  Result<StepForecast> Step(const Variant& variant, uint32_t workers, double samples,
                            const Network& network);

  // The rate of the servers' links in Mbit/s below which a step of `variant` is shorter than a step
  // of `other`, to within 1 % by bisection. Limits of the workers' links scale with it. Without a
  // break-even between kMinMbit and kMaxMbit only `always` is set.
  static constexpr double kMinMbit = 0.1, kMaxMbit = 1e6;
  struct BreakEven {
    std::optional<double> mbit;
    bool always = false;  // without mbit: whether `variant` is shorter at any rate, or at none
  };
  Result<BreakEven> FindBreakEven(const Variant& variant, const Variant& other, uint32_t workers,
                                  double samples, const Network& network);

 private:
  struct VariantSetup {
    std::unique_ptr<setup::Setup> setup;
    std::vector<BucketBytes> sizes;
  };
  Forecaster(std::string file, std::vector<std::string> overrides)
      : file_(std::move(file)), overrides_(std::move(overrides)) {}
  void DropCodecKeys(const std::string& codec, std::vector<std::string>* overrides) const;
  Result<const VariantSetup*> VariantSetupOf(const Variant& variant, uint32_t workers);

  const std::string file_;
  const std::vector<std::string> overrides_;
  std::unique_ptr<setup::Setup> job_;
  const Profile* profile_ = nullptr;
  std::map<std::tuple<Variant, uint32_t>, VariantSetup> setups_;
};

}  // namespace tern::tools
