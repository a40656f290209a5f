#include "common/algorithm/rules.h"

namespace tern::algorithm {

void CheckOdsgd(const pb::Job& job, RuleReporter* reporter) {
  const pb::Odsgd& odsgd = job.train().odsgd();
  const std::string steps_key = "train.odsgd.warmup_steps",
                    epochs_key = "train.odsgd.warmup_epochs";
  if (odsgd.has_warmup_steps() && odsgd.has_warmup_epochs() &&
      reporter->AreValid({steps_key, epochs_key}))
    reporter->Report(epochs_key, "both warmup_steps and warmup_epochs", "at most one of the two");
}

}  // namespace tern::algorithm
