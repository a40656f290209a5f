#include "tools/sweep/results.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/atomic_file.h"
#include "common/base/text.h"

namespace tern::tools {
namespace {

constexpr uint64_t kMaxResultBytes = 64 << 20;

using nlohmann::json;
using Figure = std::optional<double> SweepResult::*;

std::optional<double> NumberIn(const json& summary, const char* key) {
  const auto found = summary.find(key);
  if (found == summary.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

// A message of several lines as one sentence: "the job failed; root cause: ...".
std::string OneLine(const std::string& message) {
  std::string line;
  for (size_t i = 0; i < message.size(); ++i) {
    if (message[i] != '\n') {
      line += message[i];
      continue;
    }
    line += "; ";
    while (i + 1 < message.size() && message[i + 1] == ' ') ++i;
  }
  return line;
}

// The runs of one combination of values.
struct Combination {
  std::vector<std::string> values;
  std::vector<SweepResult> finished;
  size_t num_failed = 0, num_missing = 0;

  // The mean of a figure over the finished runs; NaN if they do not have it.
  double Mean(Figure figure) const {
    double sum = 0;
    for (const SweepResult& result : finished)
      sum += (result.*figure).value_or(std::numeric_limits<double>::quiet_NaN());
    return sum / static_cast<double>(finished.size());  // 0 / 0 is NaN
  }
  // The standard deviation, with n - 1.
  double Deviation(Figure figure) const {
    const double mean = Mean(figure);
    double sum = 0;
    for (const SweepResult& result : finished) sum += std::pow(*(result.*figure) - mean, 2);
    return std::sqrt(sum / static_cast<double>(finished.size() - 1));
  }
};

std::vector<Combination> Combine(const std::vector<SweepRun>& runs,
                                 const std::vector<std::optional<SweepResult>>& results) {
  std::vector<Combination> combinations;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (combinations.empty() || combinations.back().values != runs[i].values) {
      combinations.emplace_back();
      combinations.back().values = runs[i].values;
    }
    Combination& combination = combinations.back();
    if (!results[i].has_value())
      ++combination.num_missing;
    else if (results[i]->code != 0)
      ++combination.num_failed;
    else
      combination.finished.push_back(*results[i]);
  }
  return combinations;
}

std::string FigureText(const Combination& combination, Figure figure, double factor,
                       int num_decimals) {
  const double mean = combination.Mean(figure);
  if (std::isnan(mean)) return "-";
  const std::string mean_text = FormatFixed(factor * mean, num_decimals);
  if (combination.finished.size() == 1) return mean_text;
  return Cat(mean_text, " +- ", FormatFixed(factor * combination.Deviation(figure), num_decimals));
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string CsvNumber(const std::optional<double>& number) {
  return number.has_value() ? Cat(*number) : "";
}

}  // namespace

std::optional<SweepResult> ReadResult(const std::string& folder) {
  for (const char* name : {"/summary.failed.json", "/summary.json"}) {
    const Result<std::string> text = ReadWholeFile(folder + name, kMaxResultBytes);
    if (!text.ok()) continue;
    const json summary = json::parse(*text, nullptr, false);
    if (!summary.is_object()) continue;
    const std::optional<double> code = NumberIn(summary, "code");
    if (!code.has_value()) continue;
    SweepResult result;
    result.code = static_cast<int>(*code);
    if (result.code != 0 && summary.contains("sentence") && summary["sentence"].is_string())
      result.sentence = PrintableSentence(OneLine(summary["sentence"].get<std::string>()));
    result.accuracy = NumberIn(summary, "accuracy");
    result.test_loss = NumberIn(summary, "test_loss");
    result.train_loss = NumberIn(summary, "train_loss");
    result.wall_s = NumberIn(summary, "wall_s").value_or(0);
    return result;
  }
  return std::nullopt;
}

SweepResult ResultOf(const Exit& exit, const std::string& folder) {
  std::optional<SweepResult> result = ReadResult(folder);
  if (result.has_value() && exit.signal == 0 && result->code == exit.code)
    return std::move(*result);
  SweepResult exit_result;
  exit_result.code = exit.signal != 0 ? 128 + exit.signal : exit.code;
  if (exit_result.code != 0)
    exit_result.sentence = Cat("tern run ", Describe(exit), "; see ", folder, "/run.stderr");
  return exit_result;
}

std::vector<TableRow> SweepTable(const std::vector<GridKey>& grid,
                                 const std::vector<SweepRun>& runs,
                                 const std::vector<std::optional<SweepResult>>& results) {
  std::vector<Combination> combinations = Combine(runs, results);
  const bool has_accuracy =
      std::any_of(combinations.begin(), combinations.end(), [](const Combination& combination) {
        return !std::isnan(combination.Mean(&SweepResult::accuracy));
      });
  const auto rank = [has_accuracy](const Combination& combination) {
    const double badness = has_accuracy ? -combination.Mean(&SweepResult::accuracy)
                                        : combination.Mean(&SweepResult::train_loss);
    return std::isnan(badness) ? std::numeric_limits<double>::infinity() : badness;
  };
  std::stable_sort(combinations.begin(), combinations.end(),
                   [&](const Combination& a, const Combination& b) { return rank(a) < rank(b); });
  std::vector<TableRow> rows(1, ShortNames(grid));
  for (const char* title : {"accuracy %", "test loss", "train loss", "runs", "failed"})
    rows.front().push_back(title);
  for (const Combination& combination : combinations) {
    TableRow row = combination.values;
    row.push_back(FigureText(combination, &SweepResult::accuracy, 100, 2));
    row.push_back(FigureText(combination, &SweepResult::test_loss, 1, 4));
    row.push_back(FigureText(combination, &SweepResult::train_loss, 1, 4));
    row.push_back(Cat(combination.finished.size()));
    row.push_back(Cat(combination.num_failed));
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string SweepCsv(const std::vector<GridKey>& grid, const std::vector<SweepRun>& runs,
                     const std::vector<std::optional<SweepResult>>& results) {
  std::string csv;
  for (const GridKey& key : grid) csv += CsvField(key.key) + ",";
  csv += "seed,code,accuracy,test_loss,train_loss,wall_s,sentence\n";
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!results[i].has_value()) continue;
    const SweepResult& result = *results[i];
    for (const std::string& value : runs[i].values) csv += CsvField(value) + ",";
    csv +=
        Cat(runs[i].seed == 0 ? "" : Cat(runs[i].seed), ",", result.code, ",",
            CsvNumber(result.accuracy), ",", CsvNumber(result.test_loss), ",",
            CsvNumber(result.train_loss), ",", result.wall_s, ",", CsvField(result.sentence), "\n");
  }
  return csv;
}

}  // namespace tern::tools
