#include "client/train/curve.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <string_view>

#include "common/base/atomic_file.h"
#include "common/base/storage.h"
#include "common/base/text.h"

namespace tern::client {
namespace {

constexpr const char* kHeader = "step,training_loss,test_loss,accuracy,top5_accuracy";
constexpr uint64_t kMaxCsvBytes = 256 << 20;

std::string NumberOf(const std::optional<double>& value) {
  return value.has_value() ? FormatWith("%.9g", *value) : "";
}

// Reads one cell and the comma behind it from *line. False if it is no number; an empty cell has no
// value.
template <typename Number>
bool ReadCell(std::string_view* line, std::optional<Number>* value) {
  const size_t end = std::min(line->find(','), line->size());
  const std::string_view cell = line->substr(0, end);
  line->remove_prefix(std::min(end + 1, line->size()));
  value->reset();
  if (cell.empty()) return true;
  Number number{};
  const auto [rest, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  if (error != std::errc() || rest != cell.data() + cell.size()) return false;
  *value = number;
  return true;
}

std::optional<double> MeanOf(double sum, uint64_t samples) {
  if (samples == 0) return std::nullopt;
  return sum / static_cast<double>(samples);
}

}  // namespace

void Curve::Begin(uint64_t step) {
  if (rows_.empty() && step > 0) {
    const Result<std::string> csv = ReadWholeFile(folder_ + "/curve.csv", kMaxCsvBytes);
    if (csv.ok()) rows_ = ParseCurve(*csv);
  }
  while (!rows_.empty() && (step == 0 || rows_.back().step > step)) rows_.pop_back();
}

CurveRow& Curve::RowAt(uint64_t step) {
  while (!rows_.empty() && rows_.back().step > step) rows_.pop_back();
  if (rows_.empty() || rows_.back().step < step) rows_.push_back({.step = step});
  return rows_.back();
}

void Curve::AddLoss(uint64_t step, const pb::Figures& figures) {
  const auto loss = MeanOf(figures.train_loss(), figures.train_samples());
  if (loss.has_value() && (std::isfinite(*loss) || !may_lack_loss_)) RowAt(step).train_loss = loss;
}

void Curve::AddScores(uint64_t step, const pb::Figures& figures) {
  const uint64_t samples = figures.test_samples();
  if (samples == 0) return;
  CurveRow& row = RowAt(step);
  row.test_loss = MeanOf(figures.test_loss(), samples);
  row.accuracy = MeanOf(static_cast<double>(figures.test_correct()), samples);
  row.top5_accuracy = MeanOf(static_cast<double>(figures.test_top5_correct()), samples);
}

Status Curve::Write() const {
  (void)Disk().CreateFolders(folder_);  // If that fails, the writes below fail, too.
  TERN_RETURN_IF_ERROR(WriteFileAtomically(folder_ + "/curve.csv", CurveCsv(rows_)));
  return WriteFileAtomically(folder_ + "/curve.svg", CurveSvg(title_, rows_));
}

std::string CurveCsv(const std::vector<CurveRow>& rows) {
  std::ostringstream csv;
  csv << kHeader << "\n";
  for (const CurveRow& row : rows) {
    csv << row.step << "," << NumberOf(row.train_loss) << "," << NumberOf(row.test_loss) << ","
        << NumberOf(row.accuracy) << "," << NumberOf(row.top5_accuracy) << "\n";
  }
  return csv.str();
}

std::vector<CurveRow> ParseCurve(const std::string& csv) {
  std::istringstream lines(csv);
  std::string text;
  std::vector<CurveRow> rows;
  if (!std::getline(lines, text) || text != kHeader) return rows;
  while (std::getline(lines, text)) {
    std::string_view line = text;
    std::optional<uint64_t> step;
    CurveRow row;
    if (!ReadCell(&line, &step) || !step.has_value()) return rows;
    for (auto* value : {&row.train_loss, &row.test_loss, &row.accuracy, &row.top5_accuracy}) {
      if (!ReadCell(&line, value)) return rows;
    }
    row.step = *step;
    if (!line.empty() || (!rows.empty() && rows.back().step >= row.step)) return rows;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace tern::client
