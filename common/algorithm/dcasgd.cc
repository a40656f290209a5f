#include "common/algorithm/facts.h"
#include "common/algorithm/rules.h"

namespace tern::algorithm {
namespace {

// Of both; `section` is "train.dcasgd_c." or "train.dcasgd_a.".
void CheckFormed(const pb::Dcasgd& dcasgd, const std::string& section, Judge* judge) {
  const std::string formed = section + "formed";
  const std::string other = judge->CodecOfOtherThanValues();
  if (judge->Sound({formed}) && dcasgd.has_formed() && dcasgd.formed() == pb::Dcasgd::on_server &&
      !other.empty()) {
    judge->Report(
        formed, "on_server with codec " + other,
        "on_worker, for the term takes the gradient's square, which a code that is drawn, or "
        "that older gradients were added to, does not have; or leave the key out");
  }
}

// One mean square for all is the servers'. REQUIRES that `formed` is sound.
void CheckOneMeanSquare(const pb::Job& job, Judge* judge) {
  const std::string key = "train.dcasgd_a.ms_scope", formed = "train.dcasgd_a.formed";
  const std::string other = judge->CodecOfOtherThanValues();
  if (!judge->Sound({key}) || job.train().dcasgd_a().ms_scope() != pb::Dcasgd::global ||
      !FactsOf(job).WorkersFormTerm(other.empty()))
    return;
  const std::string why =
      "worker, for the workers form the term, each with the mean square of its own gradients; or ";
  if (other.empty()) {
    judge->Report(key, "global with formed: on_worker", why + "set " + formed + ": on_server");
  } else {
    judge->Report(key, "global with codec " + other,
                  why + "push by " + judge->CodecsOfValues() +
                      " without error_feedback, and leave " + formed + " out");
  }
}

}  // namespace

void CheckDcasgdA(const pb::Job& job, Judge* judge) {
  CheckFormed(job.train().dcasgd_a(), "train.dcasgd_a.", judge);
  if (judge->Sound({"train.dcasgd_a.formed"})) CheckOneMeanSquare(job, judge);
}

void CheckDcasgdC(const pb::Job& job, Judge* judge) {
  const pb::Dcasgd& dcasgd = job.train().dcasgd_c();
  const std::string section = "train.dcasgd_c.";
  CheckFormed(dcasgd, section, judge);
  const pb::Dcasgd plain;
  const std::string allowed = "nothing, for only dcasgd_a has a mean square";
  if (dcasgd.rho() != plain.rho() && judge->Sound({section + "rho"}))
    judge->ReportNumber(section + "rho", dcasgd.rho(), allowed);
  if (dcasgd.ms_scope() != plain.ms_scope() && judge->Sound({section + "ms_scope"}))
    judge->Report(section + "ms_scope", pb::Dcasgd::MsScope_Name(dcasgd.ms_scope()), allowed);
}

}  // namespace tern::algorithm
