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

std::string WarnOfOdsgd(const pb::Job& job) {
  const pb::Train& train = job.train();
  const pb::Odsgd& odsgd = train.odsgd();
  const std::string consequence = ": every step is one of ssgd";
  // The step after the warm-up is one of ssgd, too.
  if (odsgd.has_warmup_steps() && train.has_steps() && odsgd.warmup_steps() + 1 >= train.steps())
    return Cat("train.odsgd.warmup_steps is ", odsgd.warmup_steps(), ", and the job has ",
               train.steps(), " steps", consequence);
  if (odsgd.has_warmup_epochs() && train.has_epochs() && odsgd.warmup_epochs() >= train.epochs())
    return Cat("train.odsgd.warmup_epochs is ", odsgd.warmup_epochs(), ", and the job has ",
               train.epochs(), " epochs", consequence);
  return "";
}

void DropWarmupOfOdsgd(pb::Job* job) {
  pb::Odsgd* odsgd = job->mutable_train()->mutable_odsgd();
  odsgd->clear_warmup_epochs();
  odsgd->set_warmup_steps(0);
}

}  // namespace tern::algorithm
