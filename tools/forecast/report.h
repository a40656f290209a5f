// What `tern predict` prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/forecast/forecast.h"

namespace tern::tools {

// One forecast.
struct ForecastRow {
  Way way;
  double link_mbit = 0;
  bool strong = false;  // the total batch is the job's; else each worker's batch is
  uint32_t workers = 0;
  double samples = 0;  // per worker
  RoundTotals bytes;   // of a round of one worker
  StepForecast step;
  double one_worker_rate = 0;  // samples per second of one worker alone, in the same way

  double rate() const { return workers * samples / step.step_s; }
};

struct CrossingRow {
  Way way, other;
  uint32_t workers = 0;
  Forecaster::Crossing crossing;
};

// OD-SGD's equations 1 and 2, and the link as a bound (docs/ALGORITHMS.md, section 8), beside the
// played step.
struct OdsgdRow {
  Way way;
  double link_mbit = 0;
  uint32_t workers = 0;
  StepForecast odsgd;
  StepForecast ssgd;  // without overlap: T_cop + T'_com

  double equation_2_s() const;
  double equation_1() const;  // the improvement over ssgd according to equation 2
  double bounded_s() const;
};

std::string ProfileText(const Profile& profile, double samples);
std::string ForecastText(const std::vector<ForecastRow>& rows, bool strong);
std::string CrossingText(const std::vector<CrossingRow>& rows);
std::string OdsgdText(const std::vector<OdsgdRow>& rows);
std::string ForecastCsv(const std::vector<ForecastRow>& rows);

}  // namespace tern::tools
