// What `tern predict` prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/forecast/forecast.h"

namespace tern::tools {

// One forecast.
struct ForecastRow {
  Variant variant;
  double link_mbit = 0;
  bool strong = false;  // strong scaling: the job's total batch; else the job's batch per worker
  uint32_t workers = 0;
  double samples = 0;  // per worker
  RoundTotals bytes;   // of one worker in a round
  StepForecast step;
  double one_worker_rate = 0;  // samples per second of the same variant with one worker

  double rate() const { return workers * samples / step.step_s; }
};

struct BreakEvenRow {
  Variant variant, other;
  uint32_t workers = 0;
  Forecaster::BreakEven break_even;
};

// OD-SGD's equations 1 and 2, and the link as a lower bound (docs/ALGORITHMS.md, section 8), beside
// the simulated step.
struct OdsgdRow {
  Variant variant;
  double link_mbit = 0;
  uint32_t workers = 0;
  StepForecast odsgd;
  StepForecast ssgd;  // synchronous SGD, which exchanges without overlap

  double equation_2_s() const;
  double equation_1() const;  // the relative gain over ssgd if a step takes equation_2_s()
  double bounded_s() const;
};

std::string ProfileText(const Profile& profile, double samples);
std::string ForecastText(const std::vector<ForecastRow>& rows, bool strong);
std::string BreakEvenText(const std::vector<BreakEvenRow>& rows);
std::string OdsgdText(const std::vector<OdsgdRow>& rows);
std::string ForecastCsv(const std::vector<ForecastRow>& rows);

}  // namespace tern::tools
