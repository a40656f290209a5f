#include "common/algorithm/dcasgd.h"

#include "common/algorithm/facts.h"
#include "common/algorithm/rules.h"

namespace tern::algorithm {
namespace {

// Checks the key `compensation` of dcasgd_c or dcasgd_a. `section` is "train.dcasgd_c." or
// "train.dcasgd_a.".
void CheckCompensation(const pb::Dcasgd& dcasgd, const std::string& section,
                       RuleReporter* reporter) {
  const std::string key = section + "compensation";
  const std::string codec_name = reporter->FirstCodecNotSendingValues();
  if (reporter->AreValid({key}) && dcasgd.has_compensation() &&
      dcasgd.compensation() == pb::Dcasgd::on_server && !codec_name.empty()) {
    reporter->Report(
        key, "on_server with codec " + codec_name,
        "on_worker, because the term needs the square of the gradient, which a server "
        "cannot compute from stochastic codes or codes with error feedback; or leave the key out");
  }
}

// Checks the key mean_square_scope: only servers can keep one mean square of the gradients for all
// workers. REQUIRES that the key `compensation` has no fault.
void CheckOneMeanSquare(const pb::Job& job, RuleReporter* reporter) {
  const std::string key = "train.dcasgd_a.mean_square_scope",
                    compensation_key = "train.dcasgd_a.compensation";
  const std::string codec_name = reporter->FirstCodecNotSendingValues();
  if (!reporter->AreValid({key}) ||
      job.train().dcasgd_a().mean_square_scope() != pb::Dcasgd::global ||
      !FactsOf(job).WorkersFormTerm(codec_name.empty()))
    return;
  const std::string allowed =
      "worker, because the workers form the term, each with the mean square of its own gradients; "
      "or ";
  if (codec_name.empty()) {
    reporter->Report(key, "global with compensation: on_worker",
                     allowed + "set " + compensation_key + ": on_server");
  } else {
    reporter->Report(key, "global with codec " + codec_name,
                     allowed + "push with " + reporter->CodecsSendingValues() +
                         " without error_feedback, and leave " + compensation_key + " out");
  }
}

void FillLambda(const std::string& name, pb::Dcasgd* dcasgd) {
  if (!dcasgd->has_lambda()) dcasgd->set_lambda(*DefaultLambda(name));
}

}  // namespace

std::optional<double> DefaultLambda(const std::string& name) {
  if (name == "dcasgd_c") return 0.04;
  if (name == "dcasgd_a") return 2;
  return std::nullopt;
}

void FillDcasgdC(pb::Job* job) { FillLambda("dcasgd_c", job->mutable_train()->mutable_dcasgd_c()); }

void FillDcasgdA(pb::Job* job) { FillLambda("dcasgd_a", job->mutable_train()->mutable_dcasgd_a()); }

void CheckDcasgdA(const pb::Job& job, RuleReporter* reporter) {
  CheckCompensation(job.train().dcasgd_a(), "train.dcasgd_a.", reporter);
  if (reporter->AreValid({"train.dcasgd_a.compensation"})) CheckOneMeanSquare(job, reporter);
}

void CheckDcasgdC(const pb::Job& job, RuleReporter* reporter) {
  const pb::Dcasgd& dcasgd = job.train().dcasgd_c();
  const std::string section = "train.dcasgd_c.";
  CheckCompensation(dcasgd, section, reporter);
  const pb::Dcasgd defaults;
  const std::string allowed = "nothing, because only dcasgd_a has a mean square";
  if (dcasgd.rho() != defaults.rho() && reporter->AreValid({section + "rho"}))
    reporter->ReportNumber(section + "rho", dcasgd.rho(), allowed);
  if (dcasgd.mean_square_scope() != defaults.mean_square_scope() &&
      reporter->AreValid({section + "mean_square_scope"}))
    reporter->Report(section + "mean_square_scope",
                     pb::Dcasgd::MeanSquareScope_Name(dcasgd.mean_square_scope()), allowed);
}

}  // namespace tern::algorithm
