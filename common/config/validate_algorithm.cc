#include <functional>

#include "common/algorithm/algorithms.h"
#include "common/algorithm/facts.h"
#include "common/algorithm/rules.h"
#include "common/base/text.h"
#include "common/config/cross_key_checker.h"
#include "common/config/uses_codec.h"
#include "common/config/validate.h"

namespace tern::config {
namespace {

using Traits = pb::AlgorithmTraits;

class AlgorithmChecker : private CrossKeyChecker, private algorithm::RuleReporter {
 public:
  AlgorithmChecker(const pb::Job& job, const ParseContext& context)
      : CrossKeyChecker(job, context),
        train_(job.train()),
        facts_(algorithm::FactsOf(job)),
        with_algorithm_text_(" with algorithm: " + name()) {}

  void Check() {
    traits_ = algorithm::TraitsOf(train_);
    // An unknown algorithm (traits_ is null) has been reported before.
    if (!AreValid({"train.algorithm"}) || traits_ == nullptr) return;
    CheckSections();
    CheckParameters();
    CheckPush();
    CheckPull();
    CheckStaleness();
    CheckLars();
    CheckElasticity();
    CheckBackupWorkers();
    CheckKeysOfNamedSections();
    CheckLookahead();
    CheckRateRules();
    CheckStopWhen();
    algorithm::CheckOwnRules(job_, this);
  }

 private:
  // The methods of RuleReporter, which the checks of single algorithms call.
  bool AreValid(std::initializer_list<std::string> keys) const override {
    return CrossKeyChecker::AreValid(keys);
  }
  void Report(const std::string& key, const std::string& saw, const std::string& allowed) override {
    CrossKeyChecker::Report(key, saw, allowed);
  }
  void ReportNumber(const std::string& key, double saw, const std::string& allowed) override {
    Report(key, NumberText(saw), allowed);
  }
  std::string FirstCodecNotSendingValues() const override {
    if (!job_.exchange().error_feedback()) return FirstCodec("float_codecs", false);
    const std::string first_codec = FirstCodec("exact_codecs", false);
    return IsInTable("float_codecs", first_codec) ? first_codec + " and error_feedback: true"
                                                  : first_codec;
  }
  std::string CodecsSendingValues() const override { return OneOf(NamesInTable("float_codecs")); }

  const std::string& name() const { return train_.algorithm(); }
  std::string KeyInSection(const std::string& key) const {
    return Join(Join("train", name()), key);
  }
  std::string WorkerCount() const {
    return "workers.count (" + std::to_string(job_.workers().count()) + ")";
  }

  void CheckSections() {
    for (const std::string& other : algorithm::SectionsOfOtherAlgorithms(train_)) {
      const std::string key = Join("train", other);
      if (!AreValid({key})) continue;
      Report(key, "a section of " + other + with_algorithm_text_,
             "sections of " + name() + "; remove this one, or set train.algorithm: " + other);
    }
  }

  void CheckParameters() {
    if (!AreValid({"train.parameters"})) return;
    std::vector<std::string> supported_places;
    for (const int holding : traits_->holding()) {
      if (holding == train_.parameters()) return;
      supported_places.push_back(
          pb::Train::Parameters_Name(static_cast<pb::Train::Parameters>(holding)));
    }
    Report("train.parameters",
           pb::Train::Parameters_Name(train_.parameters()) + with_algorithm_text_,
           OneOf(supported_places) + " (" + name() + " supports no other place for them)");
  }

  // Returns the first codec for pushes that the table lists (if `listed`) or does not list
  // (otherwise); empty if there is no such codec or no such table.
  std::string FirstCodec(const std::string& table, bool listed) const {
    std::string first_codec;
    ForEachPushCodec(job_.exchange(), [&](const std::string& key, const std::string& codec) {
      if (AreValid({key}) && first_codec.empty() && IsInTable(table, codec) == listed)
        first_codec = codec;
    });
    return NamesInTable(table).empty() ? "" : first_codec;
  }

  void CheckPush() {
    const pb::Exchange& exchange = job_.exchange();
    if (traits_->pushes() == Traits::parameters) {
      ForEachPushCodec(job_.exchange(), [this](const std::string& key, const std::string& codec) {
        if (!AreValid({key}) || NamesInTable("float_codecs").empty() ||
            IsInTable("float_codecs", codec))
          return;
        Report(key, codec + with_algorithm_text_,
               OneOf(NamesInTable("float_codecs")) + ", because " + name() +
                   " pushes the parameters themselves");
      });
      return;
    }
    CheckCodecsAreUnbiased();
    const std::string sharing_codec = FirstCodec("sharing_codecs", true);
    const bool is_without_rounds = traits_->closes() == Traits::every_push;
    const bool is_central = AreValid({"train.parameters"}) && facts_.is_central;
    CheckPreviousScalers(is_without_rounds || is_central);
    if ((is_without_rounds || is_central) && AreValid({"exchange.scaler"}) &&
        exchange.scaler() == pb::Exchange::shared && !sharing_codec.empty()) {
      Report(
          "exchange.scaler",
          "shared" + (is_without_rounds ? with_algorithm_text_ : " with parameters: central") +
              " and codec " + sharing_codec,
          std::string("per_worker: ") +
              (is_without_rounds ? "workers that do not wait for each other cannot share scalers"
                                 : "servers that hold the parameters decode every push by itself") +
              "; set exchange.scaler: per_worker");
    }
    // Rotated values are close to Gaussian: a clip shortens a change of them more than it turns it.
    if (traits_->pushes() == Traits::change && AreValid({"exchange.clip", "exchange.rotate"}) &&
        exchange.clip() != pb::Exchange::none && exchange.rotate() == 0 && !sharing_codec.empty()) {
      Report("exchange.clip",
             pb::Exchange::Clip_Name(exchange.clip()) + with_algorithm_text_ + " and codec " +
                 sharing_codec,
             "none: " + name() +
                 " needs unbiased codes, and clipping makes them biased; set exchange.clip: none, "
                 "or exchange.rotate");
    }
  }

  // Checks `scaler: previous`, and reports keys about scalers that have no effect in this job.
  void CheckPreviousScalers(bool cannot_share) {
    const pb::Exchange& exchange = job_.exchange();
    if (!AreValid({"exchange.scaler", "exchange.scaler_margin", "exchange.scaler_elements"}))
      return;
    const bool uses_previous = exchange.scaler() == pb::Exchange::previous;
    if (uses_previous && (cannot_share || traits_->pushes() != Traits::gradient)) {
      Report("exchange.scaler",
             "previous" + with_algorithm_text_ + (facts_.is_central ? ", parameters: central" : ""),
             "shared or per_worker: scaler: previous is for gradients, in rounds, with parameters "
             "that the workers hold");
    }
    if (!uses_previous && exchange.scaler_margin() != 1.1 && exchange.has_scaler_margin()) {
      Report("exchange.scaler_margin", NumberText(exchange.scaler_margin()),
             "nothing, because only scaler: previous has a margin");
    }
    if (exchange.scaler_elements() != 0 && FirstCodec("sharing_codecs", true).empty()) {
      Report("exchange.scaler_elements", std::to_string(exchange.scaler_elements()),
             "0, because no tensor has a codec with scalers: a ternary one, or qsgd_shared");
    }
  }

  void CheckCodecsAreUnbiased() {
    if (facts_.feedback_key.empty() || NamesInTable("unbiased_codecs").empty()) return;
    bool any_has_feedback = job_.exchange().error_feedback(), all_are_known = true;
    ForEachPushCodec(job_.exchange(), [&](const std::string& key, const std::string& codec) {
      all_are_known = all_are_known && AreValid({key});
      if (!AreValid({key}) || IsInTable("unbiased_codecs", codec)) return;
      any_has_feedback = true;
      if (facts_.allows_feedback) return;
      Report(key, codec + with_algorithm_text_,
             OneOf(NamesInTable("unbiased_codecs")) + ", because " + name() +
                 " needs unbiased codes; or set " + facts_.feedback_key + ": true");
    });
    if (!facts_.allows_feedback && job_.exchange().error_feedback() &&
        ReadsErrorFeedback(job_.exchange()) &&
        AreValid({facts_.feedback_key, "exchange.error_feedback"}))
      Report("exchange.error_feedback", "true" + with_algorithm_text_,
             "false, because " + name() + " needs unbiased codes; or set " + facts_.feedback_key +
                 ": true");
    if (facts_.allows_feedback && all_are_known && !any_has_feedback &&
        AreValid({facts_.feedback_key, "exchange.error_feedback"}))
      Report(facts_.feedback_key, "true",
             "false, because no tensor has a codec with feedback, e.g. onebit or topk, and "
             "exchange.error_feedback is false");
  }

  void CheckPull() {
    const pb::Exchange& exchange = job_.exchange();
    if (!AreValid({"exchange.pull", "exchange.pull_codec", "train.parameters"})) return;
    if (!facts_.is_central) {
      const std::string reason =
          ", because only central parameters are pulled; or set train.parameters: central";
      if (exchange.pull() != pb::Exchange::weights)
        Report("exchange.pull", "changes with parameters: localized", "weights" + reason);
      if (exchange.pull_codec() != "fp32")
        Report("exchange.pull_codec", exchange.pull_codec() + " with parameters: localized",
               "fp32" + reason);
      return;
    }
    const std::string& codec = exchange.pull_codec();
    const bool is_stochastic =
        !NamesInTable("rounding_codecs").empty() && !IsInTable("rounding_codecs", codec);
    if (exchange.pull() == pb::Exchange::changes && is_stochastic) {
      Report(
          "exchange.pull_codec", codec + " with pull: changes",
          OneOf(NamesInTable("rounding_codecs")) + ", because the codes of " + codec +
              " are stochastic: their error is noise, which must not be carried over into the next "
              "change");
    }
    if (exchange.pull() == pb::Exchange::weights && !NamesInTable("float_codecs").empty() &&
        !IsInTable("float_codecs", codec)) {
      Report("exchange.pull_codec", codec + " with pull: weights",
             OneOf(NamesInTable("float_codecs")) +
                 (is_stochastic ? "" : "; or set exchange.pull: changes"));
    }
  }

  void CheckStaleness() {
    if (!AreValid({"train.max_staleness"}) || train_.max_staleness() == 0 ||
        traits_->closes() == Traits::every_push)
      return;
    Report("train.max_staleness", std::to_string(train_.max_staleness()) + with_algorithm_text_,
           "0, because gradients are never stale in rounds; it is for algorithms without rounds: " +
               tern::Join(algorithm::AlgorithmsWithCloses(Traits::every_push)));
  }

  // Servers hold ranges of tensors, so their optimizer cannot compute norms of whole tensors.
  void CheckLars() {
    if (!AreValid({"train.optimizer.name", "train.parameters"}) ||
        train_.optimizer().name() != "lars" || !facts_.is_central ||
        traits_->pushes() != Traits::gradient)
      return;
    Report(
        "train.optimizer.name", "lars with parameters: central",
        "an element-wise optimizer, because lars needs norms of whole tensors and a server holds "
        "parts of them; or train.parameters: localized, if the algorithm supports it");
  }

  void CheckElasticity() {
    const pb::Workers& workers = job_.workers();
    if (workers.has_min() && workers.min() > workers.count() &&
        AreValid({"workers.min", "workers.count"}))
      Report("workers.min", std::to_string(workers.min()), "at most " + WorkerCount());
    if (workers.has_max() && workers.max() < workers.count() &&
        AreValid({"workers.max", "workers.count"}))
      Report("workers.max", std::to_string(workers.max()), "at least " + WorkerCount());
    if (!AreValid({"faults.on_worker_loss"}) ||
        job_.faults().on_worker_loss() == pb::Faults::shrink)
      return;
    for (const auto& [key, number] :
         {std::pair{"workers.min", workers.min()}, std::pair{"workers.max", workers.max()}}) {
      if (number == 0 || !AreValid({key})) continue;
      Report(key, std::to_string(number),
             "not with this faults.on_worker_loss; with shrink a job trains with fewer or more "
             "than workers.count");
    }
  }

  void CheckBackupWorkers() {
    if (facts_.num_backup_workers == 0) return;
    const std::string& name = traits_->backup_key();
    const std::string key = KeyInSection(name), count = std::to_string(facts_.num_backup_workers);
    if (!AreValid({key})) return;
    if (AreValid({"workers.count"}) && facts_.num_backup_workers >= job_.workers().count()) {
      Report(key, count, "less than " + WorkerCount());
    } else if (AreValid({"faults.on_worker_loss"}) &&
               job_.faults().on_worker_loss() == pb::Faults::shrink) {
      Report("faults.on_worker_loss", "shrink with " + name + ": " + count,
             "fail or wait, because backup workers need a fixed number of workers; or set " + key +
                 ": 0");
    }
  }

  void CheckKeysOfNamedSections() {
    CheckKeysApply(train_.schedule(), "train.schedule", "schedule");
    if (facts_.local_updater != nullptr)
      CheckKeysApply(*facts_.local_updater, facts_.local_updater_key, "local updater");
    if (facts_.outer_optimizer != nullptr)
      CheckKeysApply(*facts_.outer_optimizer, facts_.outer_optimizer_key, "outer optimizer");
  }
  // Reports the keys of `section` that do not apply to its `name`. `key`: the section's own key.
  // `what`: what the section describes, for people.
  template <typename SectionWithName>
  void CheckKeysApply(const SectionWithName& section, const std::string& key,
                      const std::string& what) {
    const std::string name_key = Join(key, "name");
    if (!AreValid({name_key})) return;
    std::vector<const google::protobuf::FieldDescriptor*> fields_in_job;
    section.GetReflection()->ListFields(section, &fields_in_job);
    for (const auto* field : fields_in_job) {
      const std::string field_key = Join(key, field->name());
      if (IsApplicable(field, section) || !AreValid({field_key})) continue;
      const auto& names = RuleOf(field).only_for();
      Report(field_key, "a key that does not apply to the " + what + " " + section.name(),
             "nothing, because " + section.name() + " does not use it; remove the key, or set " +
                 name_key + ": " + tern::Join({names.begin(), names.end()}, " or "));
    }
  }

  void CheckLookahead() {
    if (facts_.lookahead == nullptr || !AreValid({facts_.lookahead_key})) return;
    if (facts_.is_central && AreValid({"train.parameters"}))
      Report(facts_.lookahead_key, "a section with parameters: central",
             "train.parameters: localized, because workers compute it with the weights they hold");
    const std::string every_key = Join(facts_.lookahead_key, "every_steps");
    if (AreValid({every_key, "train.steps"}) && train_.has_steps() &&
        facts_.lookahead->every_steps() > train_.steps())
      Report(
          every_key, std::to_string(facts_.lookahead->every_steps()),
          "at most train.steps (" + std::to_string(train_.steps()) +
              "), because the average is evaluated, and is that of the first weights until then");
    if (AreValid({"evaluation.ema_decay"}) && job_.evaluation().ema_decay() > 0)
      Report("evaluation.ema_decay",
             NumberText(job_.evaluation().ema_decay()) + " with " + facts_.lookahead_key,
             "0, because the average of Lookahead is evaluated; or no " + facts_.lookahead_key);
  }

  void CheckRateRules() {
    if (!AreValid({"train.schedule.rules", "train.parameters"})) return;
    if (!facts_.is_central && facts_.local_updater == nullptr) return;
    const auto& rules = train_.schedule().rules();
    for (int i = 0; i < rules.size(); ++i) {
      if (!rules[i].has_until_step()) continue;
      const std::string parameters = facts_.is_central ? " and parameters: central" : "";
      Report(Join(Join("train.schedule.rules", static_cast<size_t>(i)), "until_step"),
             std::to_string(rules[i].until_step()) + with_algorithm_text_ + parameters,
             "nothing, because this key is for workers that hold the weights, and not for odsgd");
    }
  }

  void CheckStopWhen() {
    const std::string key = "train.stop_when.no_better_evaluations";
    if (!AreValid({key, "evaluation.every_steps"}) ||
        train_.stop_when().no_better_evaluations() == 0)
      return;
    if (!facts_.has_rounds) {
      Report(key, std::to_string(train_.stop_when().no_better_evaluations()) + with_algorithm_text_,
             "0, because an algorithm without rounds evaluates only at the job's end");
    } else if (job_.evaluation().every_steps() == 0) {
      Report(key,
             std::to_string(train_.stop_when().no_better_evaluations()) +
                 " with evaluation.every_steps: 0",
             "0, because the job evaluates only at its end; or set evaluation.every_steps");
    }
  }

  const pb::Train& train_;
  const algorithm::Facts facts_;
  const std::string with_algorithm_text_;
  const Traits* traits_ = nullptr;
};

}  // namespace

void CheckAlgorithm(const pb::Job& job, const ParseContext& context) {
  AlgorithmChecker(job, context).Check();
}

}  // namespace tern::config
