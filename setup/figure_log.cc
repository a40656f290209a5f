#include "setup/figure_log.h"

#include <cmath>

#include "common/base/text.h"
#include "setup/setup.h"
#include "setup/totals.h"

namespace tern::setup {

namespace {

std::vector<WorkerStatus> WorkSince(const std::vector<WorkerStatus>& before,
                                    const std::vector<WorkerStatus>& now) {
  std::vector<WorkerStatus> since = now;
  for (size_t i = 0; i < since.size() && i < before.size(); ++i)
    since[i].counters = CountersSince(before[i].counters, now[i].counters);
  return since;
}

void AddTraining(const Totals& totals, bool may_lack_loss, FigureLine* line) {
  const auto share_text = [&totals](const char* name, double seconds) {
    return Cat(", ", name, " ") + FormatWith("%.0f %%", 100 * totals.ShareOf(seconds));
  };
  if (totals.loss.has_value() && (std::isfinite(*totals.loss) || !may_lack_loss)) {
    line->text +=
        ", loss " + (std::isfinite(*totals.loss) ? FormatWith("%.4f", *totals.loss) : "not finite");
    line->numbers.emplace_back("loss", *totals.loss);
  }
  line->text += FormatWith(", %.0f samples/s, ", totals.samples_per_s) +
                HumanBytes(totals.up_bytes_per_step()) + " up and " +
                HumanBytes(totals.down_bytes_per_step()) + " down a step" +
                share_text("computing", totals.compute_s) +
                share_text("waiting for sums", totals.communication_s) +
                share_text("waiting for samples", totals.data_s) +
                share_text("decoding", totals.decode_s) +
                share_text("encoding in parallel", totals.encode_s);
  line->numbers.insert(line->numbers.end(),
                       {{"samples_per_s", totals.samples_per_s},
                        {"up_bytes_per_step", static_cast<double>(totals.up_bytes_per_step())},
                        {"down_bytes_per_step", static_cast<double>(totals.down_bytes_per_step())},
                        {"computing_share", totals.ShareOf(totals.compute_s)},
                        {"waiting_share", totals.ShareOf(totals.communication_s)},
                        {"data_share", totals.ShareOf(totals.data_s)},
                        {"decoding_share", totals.ShareOf(totals.decode_s)},
                        {"encoding_share", totals.ShareOf(totals.encode_s)}});
}

}  // namespace

FigureLine DescribeFigures(const std::vector<WorkerStatus>& before,
                           const std::vector<WorkerStatus>& now, uint64_t step, uint64_t steps,
                           Time interval, bool may_lack_loss) {
  const Totals totals = TotalsOf(WorkSince(before, now));
  FigureLine line;
  line.text = Cat("step ", step);
  line.numbers.emplace_back("step", static_cast<double>(step));
  if (steps != 0) {
    line.text += Cat(" of ", steps);
    line.numbers.emplace_back("steps", static_cast<double>(steps));
  }
  if (totals.evaluated < totals.to_evaluate) {
    line.text +=
        Cat(", evaluating ", totals.evaluated, " of ", totals.to_evaluate, " test samples");
    line.numbers.emplace_back("evaluated", static_cast<double>(totals.evaluated));
    line.numbers.emplace_back("to_evaluate", static_cast<double>(totals.to_evaluate));
  } else if (totals.rounds == 0) {
    line.text += Cat(", no step in the last ", HumanTime(interval));
  }
  if (totals.rounds > 0) AddTraining(totals, may_lack_loss, &line);
  if (now.size() > 1) {
    line.text += Cat(", workers ", CountPresent(now), " of ", now.size());
    line.numbers.emplace_back("workers_present", static_cast<double>(CountPresent(now)));
    line.numbers.emplace_back("workers", static_cast<double>(now.size()));
  }
  return line;
}

FigureLog::FigureLog(const pb::Job& job)
    : interval_(std::chrono::seconds(job.metrics().log_every_s())),
      may_lack_loss_(HasForeignTable(job)) {}

void FigureLog::LogIfDue(const std::vector<WorkerStatus>& workers, uint64_t step, uint64_t steps,
                         Time now, Print print) {
  if (interval_ == Time(0)) return;
  if (!began_at_.has_value()) {
    began_at_ = now;
    before_ = workers;
  }
  if (now - *began_at_ < interval_) return;
  const FigureLine line =
      DescribeFigures(before_, workers, step, steps, now - *began_at_, may_lack_loss_);
  LogInfo(line.text, print, line.numbers);
  began_at_ = now;
  before_ = workers;
}

void FigureLog::LogIfDue(const pb::Counters& counters, uint64_t steps, Time now) {
  if (interval_ == Time(0) || (began_at_.has_value() && now - *began_at_ < interval_)) return;
  WorkerStatus worker;
  worker.counters = counters;
  LogIfDue({worker}, counters.job_step(), steps, now, Print::kNo);
}

}  // namespace tern::setup
