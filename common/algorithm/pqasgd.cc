#include <string>

#include "common/algorithm/rules.h"

namespace tern::algorithm {

void CheckPqasgd(const pb::Job& job, RuleReporter* reporter) {
  const pb::Pqasgd& pqasgd = job.train().pqasgd();
  const std::string section = "train.pqasgd.", fragments_key = section + "fragments";
  const auto refuse = [&](const std::string& key, bool is_in_job, const std::string& reason) {
    if (!is_in_job || !reporter->AreValid({section + key, fragments_key})) return;
    reporter->Report(section + key, "a key that has no effect in this job",
                     "nothing, because " + reason);
  };
  if (pqasgd.at_sync() == pb::OptimizerState::average &&
      reporter->AreValid({section + "at_sync"})) {
    reporter->Report(section + "at_sync", "average",
                     "keep or reset, because workers push changes of the weights, not the "
                     "optimizer's state; psgd averages it");
  }
  if (pqasgd.fragments() <= 1) {
    const std::string reason = "it is for fragments, and " + fragments_key + " is 1";
    refuse("overlap", pqasgd.has_overlap(), reason);
    refuse("mixing", pqasgd.has_mixing(), reason);
    return;
  }
  refuse("mixing", pqasgd.has_mixing() && pqasgd.has_overlap() && !pqasgd.overlap(),
         "without overlap a worker takes the common weights as they are");
  if (pqasgd.p() % pqasgd.fragments() != 0 && reporter->AreValid({fragments_key, section + "p"})) {
    reporter->Report(fragments_key, std::to_string(pqasgd.fragments()),
                     "a number that divides " + section + "p (" + std::to_string(pqasgd.p()) +
                         "), because a fragment is synchronized every p / fragments steps");
  }
  // A server saves what such codecs carry on for all ranges of the model after the same round.
  if (pqasgd.feedback() && reporter->AreValid({fragments_key, section + "feedback"})) {
    reporter->Report(section + "feedback",
                     "true with " + fragments_key + ": " + std::to_string(pqasgd.fragments()),
                     "false, because codecs with feedback need rounds of the whole model; or set " +
                         fragments_key + ": 1");
  }
}

}  // namespace tern::algorithm
