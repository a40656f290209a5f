#include "client/train/evaluation_record.h"

#include <array>
#include <bit>
#include <cmath>

namespace tern::client {
namespace {

// The fields of a record, each as 64 bits.
constexpr size_t kFields = 9, kFloatsOfField = 4;
using Fields = std::array<uint64_t, kFields>;

uint64_t BitsOf(double value) { return std::bit_cast<uint64_t>(value); }

Fields FieldsOf(const pb::Evaluations& record) {
  return {record.count(),
          record.newest_step(),
          record.best_step(),
          BitsOf(record.best_accuracy()),
          BitsOf(record.best_loss()),
          BitsOf(record.bar_accuracy()),
          BitsOf(record.bar_loss()),
          record.not_better(),
          record.last_step()};
}

// Whether an evaluation is better than one with `best_accuracy` and `best_loss`. One whose loss is
// not finite is of weights that diverged: it is not better than any, and any other is better.
bool IsBetter(double accuracy, double loss, double best_accuracy, double best_loss, double gain) {
  if (!std::isfinite(loss)) return false;
  if (!std::isfinite(best_loss)) return true;
  if (accuracy > best_accuracy + gain) return true;
  return gain == 0 && accuracy == best_accuracy && loss < best_loss;
}

}  // namespace

EvaluationRecord::EvaluationRecord(const pb::Job& job)
    : is_used_(job.evaluation().keep_best() || job.train().stop_when().no_better_evaluations() > 0),
      limits_(job.train().stop_when()),
      floats_(kFields * kFloatsOfField) {}

pb::Evaluations EvaluationRecord::Get() const {
  Fields fields{};
  for (size_t i = 0; i < floats_.size(); ++i) {
    fields[i / kFloatsOfField] |= static_cast<uint64_t>(floats_[i]) << (16 * (i % kFloatsOfField));
  }
  pb::Evaluations record;
  record.set_count(fields[0]);
  record.set_newest_step(fields[1]);
  record.set_best_step(fields[2]);
  record.set_best_accuracy(std::bit_cast<double>(fields[3]));
  record.set_best_loss(std::bit_cast<double>(fields[4]));
  record.set_bar_accuracy(std::bit_cast<double>(fields[5]));
  record.set_bar_loss(std::bit_cast<double>(fields[6]));
  record.set_not_better(fields[7]);
  record.set_last_step(fields[8]);
  return record;
}

void EvaluationRecord::Set(const pb::Evaluations& record) {
  const Fields fields = FieldsOf(record);
  for (size_t i = 0; i < floats_.size(); ++i) {
    floats_[i] =
        static_cast<float>(fields[i / kFloatsOfField] >> (16 * (i % kFloatsOfField)) & 0xffff);
  }
}

void EvaluationRecord::Add(const std::vector<pb::Figures>& by_rank, const pb::Figures& total,
                           uint64_t step) {
  if (!is_used_) return;
  pb::Evaluations record = Get();
  for (const pb::Figures& figures : by_rank) {
    const pb::Evaluations& other = figures.evaluations();
    if (other.newest_step() > record.newest_step() ||
        (other.newest_step() == record.newest_step() && other.count() > record.count()))
      record = other;
  }
  if (record.count() != 0 && step <= record.newest_step()) return Set(record);
  const auto samples = static_cast<double>(total.test_samples());
  const double accuracy = static_cast<double>(total.test_correct()) / samples;
  const double loss = total.test_loss() / samples;
  const bool is_first = record.count() == 0;
  record.set_count(record.count() + 1);
  record.set_newest_step(step);
  const bool has_best = record.best_step() != 0;
  if (has_best ? IsBetter(accuracy, loss, record.best_accuracy(), record.best_loss(), 0)
               : std::isfinite(loss)) {
    record.set_best_step(step);
    record.set_best_accuracy(accuracy);
    record.set_best_loss(loss);
  }
  // The last evaluation of a job that stops does not count, so that the job stops again if it is
  // resumed.
  if (record.last_step() == 0) {
    if (is_first || IsBetter(accuracy, loss, record.bar_accuracy(), record.bar_loss(),
                             limits_.min_accuracy_gain())) {
      record.set_bar_accuracy(accuracy);
      record.set_bar_loss(loss);
      record.set_not_better(0);
    } else {
      record.set_not_better(record.not_better() + 1);
    }
  }
  Set(record);
}

bool EvaluationRecord::StopsJob() const {
  const uint32_t limit = limits_.no_better_evaluations();
  return limit != 0 && Get().not_better() >= limit;
}

void EvaluationRecord::SetLastStep(uint64_t step) {
  pb::Evaluations record = Get();
  if (record.last_step() != 0) return;
  record.set_last_step(step);
  Set(record);
}

void EvaluationRecord::ForgetLastStep() {
  pb::Evaluations record = Get();
  record.clear_last_step();
  Set(record);
}

}  // namespace tern::client
