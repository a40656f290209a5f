#include "common/algorithm/dcasgd.h"
#include "common/algorithm/rules.h"
#include "common/base/text.h"

namespace tern::algorithm {

namespace {
constexpr uint64_t kPaperWarmupSteps = 200;
}  // namespace

void FillOdsgd(pb::Job* job) {
  pb::Odsgd* odsgd = job->mutable_train()->mutable_odsgd();
  if (!odsgd->has_warmup_steps() && !odsgd->has_warmup_epochs())
    odsgd->set_warmup_steps(kPaperWarmupSteps);
  pb::LocalUpdater* local = odsgd->mutable_local();
  const std::optional<double> lambda = DefaultLambda(local->name());
  if (lambda.has_value() && !local->has_lambda()) local->set_lambda(*lambda);
}

void CheckOdsgd(const pb::Job& job, RuleReporter* reporter) {
  const pb::Odsgd& odsgd = job.train().odsgd();
  const std::string steps_key = "train.odsgd.warmup_steps",
                    epochs_key = "train.odsgd.warmup_epochs";
  if (odsgd.has_warmup_steps() && odsgd.has_warmup_epochs() &&
      reporter->AreValid({steps_key, epochs_key}))
    reporter->Report(epochs_key, "both warmup_steps and warmup_epochs", "at most one of the two");

  const pb::LocalUpdater& local = odsgd.local();
  const std::string rate_key = "train.odsgd.local.learning_rate",
                    times_key = "train.odsgd.local.learning_rate_times";
  if (local.has_learning_rate() && local.has_learning_rate_times() &&
      reporter->AreValid({rate_key, times_key}))
    reporter->Report(times_key, "both learning_rate and learning_rate_times",
                     "at most one of the two: learning_rate is fixed, and learning_rate_times "
                     "multiplies the schedule's rate at each step");
}

std::string WarnOfOdsgd(const pb::Job& job, uint64_t steps_per_epoch) {
  const pb::Train& train = job.train();
  const pb::Odsgd& odsgd = train.odsgd();
  const bool warms_up_in_epochs = odsgd.has_warmup_epochs(), lasts_epochs = train.has_epochs();
  if (steps_per_epoch == 0 && warms_up_in_epochs != lasts_epochs) return "";
  // If its length is not known here, both are in epochs, or none: of any length, but not of few
  // steps, so that the one step below does not count.
  const double epoch = steps_per_epoch == 0 ? 1e9 : static_cast<double>(steps_per_epoch);
  const double warmup = warms_up_in_epochs ? odsgd.warmup_epochs() * epoch
                                           : static_cast<double>(odsgd.warmup_steps()),
               length = lasts_epochs ? train.epochs() * epoch : static_cast<double>(train.steps());
  if (warmup + 1 < length) return "";  // The step after the warm-up is one of ssgd, too.
  return Cat("train.odsgd.",
             warms_up_in_epochs ? Cat("warmup_epochs is ", odsgd.warmup_epochs())
                                : Cat("warmup_steps is ", odsgd.warmup_steps()),
             ", and the job has ",
             lasts_epochs ? Cat(train.epochs(), " epochs") : Cat(train.steps(), " steps"),
             steps_per_epoch == 0 ? "" : Cat(" with ", steps_per_epoch, " steps an epoch"),
             ": every step is one of ssgd");
}

void DropWarmupOfOdsgd(pb::Job* job) {
  pb::Odsgd* odsgd = job->mutable_train()->mutable_odsgd();
  odsgd->clear_warmup_epochs();
  odsgd->set_warmup_steps(0);
}

}  // namespace tern::algorithm
