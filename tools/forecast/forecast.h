// Forecasts a job with different algorithms and codecs and different numbers of workers, for
// `tern predict`.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "common/base/status.h"
#include "setup/setup.h"
#include "tools/forecast/model.h"
#include "tools/forecast/profile.h"
#include "tools/forecast/sizes.h"

namespace tern::tools {

struct Way {
  std::string algorithm, codec;
  auto operator<=>(const Way&) const = default;
};

class Forecaster {
 public:
  // kBadJob as in `tern check`.
  static Result<std::unique_ptr<Forecaster>> Make(const std::string& job,
                                                  const std::vector<std::string>& overrides);

  const setup::Setup& job() const { return *job_; }
  Way own_way() const { return {job_->job.train().algorithm(), job_->job.exchange().codec()}; }
  // Samples of a worker per step in the job itself.
  double samples() const;

  // The job in that way, with `workers` workers of as many samples each. kBadJob if it is
  // impossible.
  Result<const setup::Setup*> SetupOf(const Way& way, uint32_t workers);
  // Bytes per round.
  Result<RoundTotals> BytesOf(const Way& way, uint32_t workers);

  // REQUIRED before any forecast; `profile` outlives this.
  void UseProfile(const Profile& profile) { profile_ = &profile; }
  Result<StepCosts> Costs(const Way& way, uint32_t workers, double samples);
  Result<StepForecast> Step(const Way& way, uint32_t workers, double samples,
                            const Network& network);

  // The rate of the servers' links (and of the workers', if they are limited) in Mbit/s below which
  // a step by `way` is shorter than by `other`: to within 1 %, by bisection. If it is not between
  // kLeastMbit and kMostMbit, only `always` is set.
  static constexpr double kLeastMbit = 0.1, kMostMbit = 1e6;
  struct Crossing {
    std::optional<double> mbit;
    bool always = false;  // if there is no mbit: true: shorter at any rate; false: at none
  };
  Result<Crossing> PaysBelow(const Way& way, const Way& other, uint32_t workers, double samples,
                             const Network& network);

 private:
  struct Case {
    std::unique_ptr<setup::Setup> setup;
    std::vector<BucketBytes> sizes;
  };
  Forecaster(std::string file, std::vector<std::string> overrides)
      : file_(std::move(file)), overrides_(std::move(overrides)) {}
  void DropCodecKeys(const std::string& codec, std::vector<std::string>* overrides) const;
  Result<const Case*> CaseOf(const Way& way, uint32_t workers);

  const std::string file_;
  const std::vector<std::string> overrides_;
  std::unique_ptr<setup::Setup> job_;
  const Profile* profile_ = nullptr;
  std::map<std::tuple<Way, uint32_t>, Case> cases_;
};

}  // namespace tern::tools
