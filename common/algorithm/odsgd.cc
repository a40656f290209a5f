#include "common/algorithm/dcasgd.h"
#include "common/algorithm/rules.h"

namespace tern::algorithm {

void FillOdsgd(pb::Job* job) {
  pb::LocalUpdater* local = job->mutable_train()->mutable_odsgd()->mutable_local();
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

}  // namespace tern::algorithm
