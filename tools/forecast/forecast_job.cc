// tern forecast: how fast a job will be with other links, workers, codecs and algorithms.
#include <algorithm>
#include <cstdio>

#include "common/base/text.h"
#include "tools/commands.h"
#include "tools/forecast/measure.h"
#include "tools/forecast/options.h"
#include "tools/forecast/paper.h"
#include "tools/forecast/report.h"
#include "tools/write_output.h"

namespace tern::tools {
namespace {

// `path`: "" if the user wants no such file.
Status WriteCsv(const std::string& path, const std::string& text) {
  return path.empty() ? Ok() : WriteOutput(path, text);
}

// One run of the command: makes and prints all forecasts that its options ask for.
class ForecastRun {
 public:
  ForecastRun(const ForecastOptions& options, Forecaster& forecaster)
      : options_(options), forecaster_(forecaster) {
    if (std::find(options.workers.begin(), options.workers.end(), 1u) == options.workers.end())
      worker_counts_ = {1};  // Speed-ups are relative to one worker.
    for (const uint32_t workers : options.workers) worker_counts_.push_back(workers);
  }

  Status Run() {
    TERN_RETURN_IF_ERROR(ChooseVariants());
    TERN_RETURN_IF_ERROR(LoadOrMeasureProfile());
    std::printf("%s", ProfileText(profile_, forecaster_.samples_per_worker()).c_str());
    for (const double mbit : options_.link_mbit) {
      for (const Variant& variant : variants_)
        TERN_RETURN_IF_ERROR(AddForecastRows(variant, NetworkOf(mbit)));
    }
    TERN_RETURN_IF_ERROR(FindBreakEvens());
    TERN_RETURN_IF_ERROR(AddHostRows());
    std::printf("%s%s%s%s%s", ForecastText(rows_, false).c_str(), ForecastText(rows_, true).c_str(),
                OdsgdText(odsgd_rows_).c_str(), BreakEvenText(break_evens_).c_str(),
                HostText(host_rows_).c_str());
    return WriteCsv(options_.csv_path, ForecastCsv(rows_));
  }

 private:
  Network NetworkOf(double mbit) const {
    Network network = options_.network;
    network.server_mbit = mbit;
    if (network.worker_mbit < 0) network.worker_mbit = mbit;
    const pb::Job& job = forecaster_.job().job;
    network.worker_send_mbit = job.workers().send_mbit();
    for (const pb::Server& server : job.servers()) {
      if (!server.has_send_mbit()) continue;
      network.server_send_mbit = network.server_send_mbit == 0
                                     ? server.send_mbit()
                                     : std::min(network.server_send_mbit, server.send_mbit());
    }
    return network;
  }

  // Chooses the requested variants with which the job is valid, and prints why others are left out.
  Status ChooseVariants() {
    const Variant own_variant = forecaster_.own_variant();
    std::vector<std::string> codecs = options_.codecs, algorithms = options_.algorithms;
    if (codecs.empty())
      codecs = own_variant.codec == "fp32" ? std::vector<std::string>{"fp32"}
                                           : std::vector<std::string>{"fp32", own_variant.codec};
    if (algorithms.empty()) algorithms = {own_variant.algorithm};
    Status first_error;
    for (const std::string& algorithm : algorithms) {
      for (const std::string& codec : codecs) {
        Status variant_error;
        for (const uint32_t workers : worker_counts_) {
          const auto setup = forecaster_.SetupOf({algorithm, codec}, workers);
          if (!setup.ok() && variant_error.ok()) variant_error = setup.status();
        }
        if (variant_error.ok()) {
          variants_.push_back({algorithm, codec});
          continue;
        }
        if (first_error.ok()) first_error = variant_error;
        std::fprintf(stderr, "tern: cannot forecast %s with codec %s: %s\n", algorithm.c_str(),
                     codec.c_str(), variant_error.message().c_str());
      }
    }
    return variants_.empty() ? first_error : Ok();
  }

  Status LoadOrMeasureProfile() {
    if (!options_.profile_path.empty()) {
      auto profile = Profile::Read(options_.profile_path);
      if (!profile.ok()) return profile.status();
      profile_ = std::move(*profile);
      TERN_RETURN_IF_ERROR(profile_.CheckFor(forecaster_.job()));
    } else {
      std::vector<const setup::Setup*> setups;
      for (const Variant& variant : variants_) {
        const auto setup = forecaster_.SetupOf(variant, worker_counts_.front());
        if (!setup.ok()) return setup.status();
        setups.push_back(*setup);
      }
      auto measured_profile =
          MeasureProfile(forecaster_.job(), setups, options_.compute_s, [](const auto& sentence) {
            std::fprintf(stderr, "tern: warning: %s\n", sentence.c_str());
          });
      if (!measured_profile.ok()) return measured_profile.status();
      profile_ = std::move(*measured_profile);
    }
    forecaster_.UseProfile(profile_);
    return options_.save_profile_path.empty() ? Ok() : profile_.Write(options_.save_profile_path);
  }

  // Adds the rows of a variant on one network, in weak and in strong scaling, for all numbers of
  // workers. Strong scaling skips numbers that do not divide the total batch.
  Status AddForecastRows(const Variant& variant, const Network& network) {
    const double samples = forecaster_.samples_per_worker();
    const auto one_worker_weak_step = forecaster_.ForecastStep(variant, 1, samples, network);
    if (!one_worker_weak_step.ok()) return one_worker_weak_step.status();
    for (const uint32_t workers : options_.workers) {
      TERN_RETURN_IF_ERROR(AddRow(variant, network, {false, workers, samples},
                                  samples / one_worker_weak_step->step_s));
      TERN_RETURN_IF_ERROR(AddOdsgdRow(variant, network, workers));
    }
    // A client's job has no batch that the workers could divide.
    if (setup::IsClientJob(forecaster_.job().job)) return Ok();
    const double total_batch = forecaster_.job().job.train().batch_total();
    const auto one_worker_strong_step = forecaster_.ForecastStep(variant, 1, total_batch, network);
    if (!one_worker_strong_step.ok()) return one_worker_strong_step.status();
    for (const uint32_t workers : options_.workers) {
      const double samples_per_worker = total_batch / workers;
      if (samples_per_worker == static_cast<double>(static_cast<uint64_t>(samples_per_worker))) {
        TERN_RETURN_IF_ERROR(AddRow(variant, network, {true, workers, samples_per_worker},
                                    total_batch / one_worker_strong_step->step_s));
      }
    }
    return Ok();
  }

  struct ScalingCase {
    bool is_strong;    // Strong scaling: the workers divide the job's total batch.
    uint32_t workers;  // The number of workers.
    double samples;    // Samples per worker and step.
  };
  Status AddRow(const Variant& variant, const Network& network, const ScalingCase& scaling_case,
                double one_worker_rate) {
    ForecastRow row{variant,
                    network.server_mbit,
                    scaling_case.is_strong,
                    scaling_case.workers,
                    scaling_case.samples,
                    {},
                    {},
                    one_worker_rate};
    const auto round_bytes = forecaster_.BytesOf(variant, scaling_case.workers);
    if (!round_bytes.ok()) return round_bytes.status();
    row.bytes = *round_bytes;
    const auto step_forecast =
        forecaster_.ForecastStep(variant, scaling_case.workers, scaling_case.samples, network);
    if (!step_forecast.ok()) return step_forecast.status();
    row.step = *step_forecast;
    rows_.push_back(row);
    return Ok();
  }

  // Adds a row with the equations of the OD-SGD paper if the variant's workers begin the next step
  // before their round is answered, as in OD-SGD.
  Status AddOdsgdRow(const Variant& variant, const Network& network, uint32_t workers) {
    auto costs = forecaster_.ComputeCosts(variant, workers, forecaster_.samples_per_worker());
    if (!costs.ok()) return costs.status();
    if (!costs->pattern.updates_after_answers) return Ok();
    const auto odsgd_step = forecaster_.Simulate(*costs, variant, workers, network);
    if (!odsgd_step.ok()) return odsgd_step.status();
    costs->pattern.lag = 0;
    costs->pattern.updates_after_answers = false;
    costs->pattern.local_s = 0;
    costs->pattern.push_time = StepPattern::PushTime::kAfterCompute;
    const auto ssgd_step = forecaster_.Simulate(*costs, variant, workers, network);
    if (!ssgd_step.ok()) return ssgd_step.status();
    odsgd_rows_.push_back({variant, network.server_mbit, workers, *odsgd_step, *ssgd_step});
    return Ok();
  }

  // Adds a row for every variant and number of workers that makes hosts of several workers.
  Status AddHostRows() {
    const uint32_t workers_a_host = options_.network.workers_a_host;
    for (const Variant& variant : variants_) {
      for (const uint32_t workers : options_.workers) {
        if (workers_a_host <= 1 || workers < workers_a_host) continue;
        const auto bytes = forecaster_.BytesOfHost(variant, workers, workers_a_host);
        if (!bytes.ok()) return bytes.status();
        host_rows_.push_back({variant, workers, workers_a_host, *bytes});
      }
    }
    return Ok();
  }

  // For every variant and number of workers, finds the bandwidth below which the variant is faster
  // than the same algorithm with fp32, if fp32 is forecast too.
  Status FindBreakEvens() {
    for (const Variant& variant : variants_) {
      const Variant fp32_variant{variant.algorithm, "fp32"};
      if (variant == fp32_variant ||
          std::find(variants_.begin(), variants_.end(), fp32_variant) == variants_.end())
        continue;
      for (const uint32_t workers : options_.workers) {
        const auto break_even = forecaster_.FindBreakEven(variant, fp32_variant, workers,
                                                          forecaster_.samples_per_worker(),
                                                          NetworkOf(options_.link_mbit.front()));
        if (!break_even.ok()) return break_even.status();
        break_evens_.push_back({variant, fp32_variant, workers, *break_even});
      }
    }
    return Ok();
  }

  const ForecastOptions& options_;
  Forecaster& forecaster_;
  std::vector<uint32_t> worker_counts_;
  std::vector<Variant> variants_;
  Profile profile_;
  std::vector<ForecastRow> rows_;
  std::vector<OdsgdRow> odsgd_rows_;
  std::vector<BreakEvenRow> break_evens_;
  std::vector<HostRow> host_rows_;
};

Status ForecastPaper(const ForecastOptions& options) {
  const std::vector<paper::Point> points = paper::Figure5();
  std::printf("%s", paper::FormatTables(points).c_str());
  return WriteCsv(options.csv_path, paper::FormatCsv(points));
}

}  // namespace

Status ForecastJob(const Arguments& arguments) {
  const Result<ForecastOptions> options = ParseForecastOptions(arguments);
  if (!options.ok()) return options.status();
  if (options->wants_paper_model) return ForecastPaper(*options);
  const auto forecaster = Forecaster::Make(options->job, options->overrides);
  if (!forecaster.ok()) return forecaster.status();
  if (options->compute_s > 0 && !setup::HasForeignTable((*forecaster)->job().job)) {
    return Status(Code::kUsage,
                  "--compute_ms: saw it for a job whose forward and backward Tern measures itself; "
                  "only for train.compute: client and module");
  }
  return ForecastRun(*options, **forecaster).Run();
}

}  // namespace tern::tools
