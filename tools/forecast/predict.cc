// tern predict: how fast a job will be with other links, workers, codecs and algorithms.
#include <algorithm>
#include <cstdio>
#include <fstream>

#include "common/base/text.h"
#include "tools/commands.h"
#include "tools/forecast/measure.h"
#include "tools/forecast/options.h"
#include "tools/forecast/paper.h"
#include "tools/forecast/report.h"

namespace tern::tools {
namespace {

Status WriteText(const std::string& path, const std::string& text) {
  if (path.empty()) return Ok();
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? Ok() : Status(Code::kCannotWrite, "cannot write " + path);
}

// One run of the command: what was asked for, forecast by forecast.
class Prediction {
 public:
  Prediction(const PredictOptions& options, Forecaster& forecaster)
      : options_(options), forecaster_(forecaster) {
    if (std::find(options.workers.begin(), options.workers.end(), 1u) == options.workers.end())
      kinds_of_workers_ = {1};  // what the others are compared to
    for (const uint32_t workers : options.workers) kinds_of_workers_.push_back(workers);
  }

  Status Run() {
    TERN_RETURN_IF_ERROR(ChooseWays());
    TERN_RETURN_IF_ERROR(TakeProfile());
    std::printf("%s", ProfileText(profile_, forecaster_.samples()).c_str());
    for (const double mbit : options_.link_mbit) {
      for (const Way& way : ways_) TERN_RETURN_IF_ERROR(Forecast(way, NetworkOf(mbit)));
    }
    TERN_RETURN_IF_ERROR(Cross());
    std::printf("%s%s%s%s", ForecastText(rows_, false).c_str(), ForecastText(rows_, true).c_str(),
                OdsgdText(odsgd_).c_str(), CrossingText(crossings_).c_str());
    return WriteText(options_.csv, ForecastCsv(rows_));
  }

 private:
  Network NetworkOf(double mbit) const {
    Network network = options_.network;
    network.server_mbit = mbit;
    if (network.worker_mbit < 0) network.worker_mbit = mbit;
    return network;
  }

  // All that were asked for and that there are; those that there are not are told.
  Status ChooseWays() {
    const Way own = forecaster_.own_way();
    std::vector<std::string> codecs = options_.codecs, algorithms = options_.algorithms;
    if (codecs.empty())
      codecs = own.codec == "fp32" ? std::vector<std::string>{"fp32"}
                                   : std::vector<std::string>{"fp32", own.codec};
    if (algorithms.empty()) algorithms = {own.algorithm};
    Status first;
    for (const std::string& algorithm : algorithms) {
      for (const std::string& codec : codecs) {
        Status found;
        for (const uint32_t workers : kinds_of_workers_) {
          const auto setup = forecaster_.SetupOf({algorithm, codec}, workers);
          if (!setup.ok() && found.ok()) found = setup.status();
        }
        if (found.ok()) {
          ways_.push_back({algorithm, codec});
          continue;
        }
        if (first.ok()) first = found;
        std::fprintf(stderr, "tern: no forecast of %s with %s: %s\n", algorithm.c_str(),
                     codec.c_str(), found.message().c_str());
      }
    }
    return ways_.empty() ? first : Ok();
  }

  Status TakeProfile() {
    if (!options_.profile.empty()) {
      auto read = Profile::Read(options_.profile);
      if (!read.ok()) return read.status();
      profile_ = std::move(*read);
      TERN_RETURN_IF_ERROR(profile_.CheckFor(forecaster_.job()));
    } else {
      std::vector<const setup::Setup*> setups;
      for (const Way& way : ways_) {
        const auto setup = forecaster_.SetupOf(way, kinds_of_workers_.front());
        if (!setup.ok()) return setup.status();
        setups.push_back(*setup);
      }
      auto measured = MeasureProfile(forecaster_.job(), setups);
      if (!measured.ok()) return measured.status();
      profile_ = std::move(*measured);
    }
    forecaster_.UseProfile(profile_);
    return options_.save_profile.empty() ? Ok() : profile_.Write(options_.save_profile);
  }

  Status Forecast(const Way& way, const Network& network) {
    const double samples = forecaster_.samples();
    const double total = forecaster_.job().job.train().batch_total();
    const auto alone = forecaster_.Step(way, 1, samples, network);
    if (!alone.ok()) return alone.status();
    const auto alone_whole = forecaster_.Step(way, 1, total, network);
    if (!alone_whole.ok()) return alone_whole.status();
    for (const uint32_t workers : options_.workers) {
      TERN_RETURN_IF_ERROR(
          AddRow(way, network, {false, workers, samples}, samples / alone->step_s));
      TERN_RETURN_IF_ERROR(AddOdsgd(way, network, workers));
    }
    for (const uint32_t workers : options_.workers) {
      const double share = total / workers;
      if (share == static_cast<double>(static_cast<uint64_t>(share))) {
        TERN_RETURN_IF_ERROR(
            AddRow(way, network, {true, workers, share}, total / alone_whole->step_s));
      }
    }
    return Ok();
  }

  struct Scale {
    bool strong;
    uint32_t workers;
    double samples;
  };
  Status AddRow(const Way& way, const Network& network, const Scale& scale, double one_worker) {
    ForecastRow row{way, network.server_mbit, scale.strong, scale.workers, scale.samples, {},
                    {},  one_worker};
    const auto bytes = forecaster_.BytesOf(way, scale.workers);
    if (!bytes.ok()) return bytes.status();
    row.bytes = *bytes;
    const auto step = forecaster_.Step(way, scale.workers, scale.samples, network);
    if (!step.ok()) return step.status();
    row.step = *step;
    rows_.push_back(row);
    return Ok();
  }

  // Of a way whose workers run ahead of their rounds, as in the OD-SGD paper's equations.
  Status AddOdsgd(const Way& way, const Network& network, uint32_t workers) {
    auto costs = forecaster_.Costs(way, workers, forecaster_.samples());
    if (!costs.ok()) return costs.status();
    if (costs->pace.lag == 0) return Ok();
    const auto odsgd = PlayStep(*costs, profile_, workers, network);
    if (!odsgd.ok()) return odsgd.status();
    costs->pace.lag = 0;
    costs->pace.local_s = 0;
    costs->pace.push = Pace::Push::kAfterCompute;
    const auto ssgd = PlayStep(*costs, profile_, workers, network);
    if (!ssgd.ok()) return ssgd.status();
    odsgd_.push_back({way, network.server_mbit, workers, *odsgd, *ssgd});
    return Ok();
  }

  // Where fp32 is among the codecs, the others against it.
  Status Cross() {
    for (const Way& way : ways_) {
      const Way fp32{way.algorithm, "fp32"};
      if (way == fp32 || std::find(ways_.begin(), ways_.end(), fp32) == ways_.end()) continue;
      for (const uint32_t workers : options_.workers) {
        const auto crossing = forecaster_.PaysBelow(way, fp32, workers, forecaster_.samples(),
                                                    NetworkOf(options_.link_mbit.front()));
        if (!crossing.ok()) return crossing.status();
        crossings_.push_back({way, fp32, workers, *crossing});
      }
    }
    return Ok();
  }

  const PredictOptions& options_;
  Forecaster& forecaster_;
  std::vector<uint32_t> kinds_of_workers_;
  std::vector<Way> ways_;
  Profile profile_;
  std::vector<ForecastRow> rows_;
  std::vector<OdsgdRow> odsgd_;
  std::vector<CrossingRow> crossings_;
};

Status PredictPaper(const PredictOptions& options) {
  const std::vector<paper::Point> points = paper::Figure5();
  std::printf("%s", paper::Text(points).c_str());
  return WriteText(options.csv, paper::Csv(points));
}

}  // namespace

Status PredictJob(const Words& words) {
  const Result<PredictOptions> options = ParsePredictOptions(words);
  if (!options.ok()) return options.status();
  if (options->paper) return PredictPaper(*options);
  const auto forecaster = Forecaster::Make(options->job, options->overrides);
  if (!forecaster.ok()) return forecaster.status();
  return Prediction(*options, **forecaster).Run();
}

}  // namespace tern::tools
