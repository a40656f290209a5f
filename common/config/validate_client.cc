#include "common/algorithm/facts.h"
#include "common/config/cross_key_checker.h"
#include "common/config/validate.h"

namespace tern::config {
namespace {

class ClientChecker : private CrossKeyChecker {
 public:
  ClientChecker(const pb::Job& job, const ParseContext& context) : CrossKeyChecker(job, context) {}

  void Check() {
    CheckMeaninglessKeys(pb::Job::descriptor(), "");
    CheckMeaninglessKeys(pb::Train::descriptor(), "train");
    const algorithm::Facts facts = algorithm::FactsOf(job_);
    const bool only_exchanges = facts.has_rounds && !facts.has_own_point && facts.period == 1 &&
                                facts.pushed_quantity == pb::AlgorithmTraits::gradient;
    if (AreValid({"train.algorithm"}) && !only_exchanges) {
      Report(
          "train.algorithm", Excerpt(job_.train().algorithm()),
          "with compute: client, an algorithm that only takes the mean of the workers' gradients, "
          "as the default does, because the clients update their weights themselves");
    }
    if (AreValid({"train.parameters"}) && job_.train().parameters() != pb::Train::localized) {
      Report("train.parameters", "central",
             "localized with compute: client, because the clients hold the weights");
    }
    if (AreValid({"faults.on_worker_loss"}) &&
        job_.faults().on_worker_loss() == pb::Faults::shrink) {
      Report(
          "faults.on_worker_loss", "shrink",
          "fail or wait with compute: client, because a client that joins cannot make up for the "
          "steps that it has missed");
    }
  }

 private:
  // Reports the keys of a section that the job has, but that mean nothing in it.
  void CheckMeaninglessKeys(const google::protobuf::Descriptor* section, const std::string& name) {
    for (int i = 0; i < section->field_count(); ++i) {
      if (!RuleOf(section->field(i)).not_for_client()) continue;
      const std::string key = Join(name, section->field(i)->name());
      // An override may give a key of a section, without the section itself.
      const auto given = context_.key_positions->lower_bound(key);
      if (given == context_.key_positions->end()) continue;
      if (given->first != key && given->first.rfind(key + ".", 0) != 0) continue;
      Report(given->first, "this key with compute: client",
             "nothing: the client's own program has its model, data, optimizer and length");
    }
  }
};

}  // namespace

void CheckClient(const pb::Job& job, const ParseContext& context) {
  ClientChecker(job, context).Check();
}

}  // namespace tern::config
