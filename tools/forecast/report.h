// What `tern forecast` prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/forecast/forecast.h"

namespace tern::tools {

// One forecast: a variant of the job with a number of workers on one network.
struct ForecastRow {
  Variant variant;
  double link_mbit = 0;
  // True: the workers divide the job's total batch. False: each worker has as many samples as a
  // worker of the job.
  bool is_strong = false;
  uint32_t workers = 0;
  double samples = 0;  // Samples per worker and step.
  RoundTotals bytes;   // What one worker sends and receives in a round.
  StepForecast step;
  double one_worker_rate = 0;  // Samples per second of the same variant with one worker.

  // Samples per second of all workers.
  double rate() const { return workers * samples / step.step_s; }
};

// The link rate below which `variant` is faster than `other_variant`.
struct BreakEvenRow {
  Variant variant, other_variant;
  uint32_t workers = 0;
  Forecaster::BreakEven break_even;
};

// What the link of a host with several workers carries in a round.
struct HostRow {
  Variant variant;
  uint32_t workers = 0, workers_a_host = 0;
  Forecaster::HostBytes bytes;

  // Where exchange.host_sum saves bytes.
  std::string Pays() const;
};

// The duration of an OD-SGD step: simulated, by the equations 1 and 2 of the OD-SGD paper, and by
// equation 2 with the link as a further lower bound. The paper's equations use T_cop, the seconds
// of computing one gradient, and T_com, the seconds of one exchange of the whole model.
struct OdsgdRow {
  Variant variant;
  double link_mbit = 0;
  uint32_t workers = 0;
  StepForecast odsgd;
  StepForecast ssgd;  // synchronous SGD, which exchanges without overlap

  // Equation 2: T_cop if T_com <= T_cop, else (T_com + T_cop) / 2.
  double equation_2_s() const;
  // Equation 1: the fraction of an ssgd step that is saved if a step takes equation_2_s().
  double equation_1() const;
  // The maximum of T_cop, (T_com + T_cop) / 2, and odsgd.busy_s (the time with an exchange under
  // way, divided by the number of exchanges).
  double bounded_s() const;
};

std::string ProfileText(const Profile& profile, double samples);
std::string ForecastText(const std::vector<ForecastRow>& rows, bool is_strong);
std::string BreakEvenText(const std::vector<BreakEvenRow>& rows);
std::string HostText(const std::vector<HostRow>& rows);
std::string OdsgdText(const std::vector<OdsgdRow>& rows);
std::string ForecastCsv(const std::vector<ForecastRow>& rows);

}  // namespace tern::tools
