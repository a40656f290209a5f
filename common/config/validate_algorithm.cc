#include <functional>

#include "common/base/text.h"
#include "common/config/algorithms.h"
#include "common/config/between_keys.h"
#include "common/config/validate.h"

namespace tern::config {
namespace {

using Traits = pb::AlgorithmTraits;

class AlgorithmChecker : private BetweenKeys {
 public:
  AlgorithmChecker(const pb::Job& job, const Reading& reading)
      : BetweenKeys(job, reading), train_(job.train()), with_(" with algorithm: " + name()) {}

  void Check() {
    // Whatever stands in the way of knowing the algorithm has been told.
    if (!Sound({"train.algorithm"}) || TraitsOf(train_) == nullptr) return;
    traits_ = TraitsOf(train_);
    CheckSections();
    CheckCodecSections();
    CheckMomentumOfTopK();
    CheckHolding();
    CheckPush();
    CheckPull();
    CheckStaleness();
    CheckLars();
    CheckShrink();
    CheckSsgd();
    CheckOdsgd();
    CheckDcasgd();
    CheckSoftsync();
    CheckEasgd();
  }

 private:
  const std::string& name() const { return train_.algorithm(); }
  std::string Section(const std::string& key) const { return Join(Join("train", name()), key); }
  std::string Count() const {
    return "workers.count (" + std::to_string(job_.workers().count()) + ")";
  }

  void CheckSections() {
    for (const std::string& other : SectionsOfOthers(train_)) {
      const std::string key = Join("train", other);
      if (!Sound({key})) continue;
      Report(key, "a section of " + other + with_,
             "sections of " + name() + "; take this one away, or set train.algorithm: " + other);
    }
  }

  // Sections of codecs that nothing is coded by.
  void CheckCodecSections() {
    const pb::Exchange& exchange = job_.exchange();
    std::vector<const google::protobuf::FieldDescriptor*> set;
    exchange.GetReflection()->ListFields(exchange, &set);
    for (const auto* field : set) {
      if (field->message_type() == nullptr || field->is_repeated()) continue;
      const std::string key = Join("exchange", field->name());
      if (UsesCodec(exchange, field->name()) || !Sound({key})) continue;
      Report(key, "a section of " + field->name() + ", by which nothing is coded",
             "sections of the codecs in use; take this one away, or set exchange.codec: " +
                 field->name());
    }
  }

  // Deep gradient compression has momentum before it chooses, and so none after.
  void CheckMomentumOfTopK() {
    const pb::TopK& topk = job_.exchange().topk();
    const std::string& optimizer = train_.optimizer().name();
    if (!UsesCodec(job_.exchange(), "topk") || topk.momentum() == 0 || optimizer == "sgd") return;
    if (!Sound({"exchange.topk.momentum", "train.optimizer.name"})) return;
    Report("exchange.topk.momentum",
           NumberText(topk.momentum()) + " with train.optimizer.name: " + optimizer,
           "0, for momentum would count twice; or set train.optimizer.name: sgd");
  }

  void CheckHolding() {
    if (!Sound({"train.parameters"})) return;
    std::vector<std::string> known;
    for (const int holding : traits_->holding()) {
      if (holding == train_.parameters()) return;
      known.push_back(pb::Train::Parameters_Name(static_cast<pb::Train::Parameters>(holding)));
    }
    Report("train.parameters", pb::Train::Parameters_Name(train_.parameters()) + with_,
           OneOf(known) + " (" + name() + " knows no other way to hold them)");
  }

  // Calls `visit` with the key and the name of each codec of the up-link.
  void ForEachCodec(
      const std::function<void(const std::string& key, const std::string& codec)>& visit) {
    visit("exchange.codec", job_.exchange().codec());
    for (int i = 0; i < job_.exchange().rules_size(); ++i) {
      visit(Join(Join("exchange.rules", static_cast<size_t>(i)), "codec"),
            job_.exchange().rules(i).codec());
    }
  }
  // The first codec of the up-link in this table, or (`in` false) not in it; empty if there is
  // none.
  std::string FirstCodec(const std::string& table, bool in) {
    std::string first;
    ForEachCodec([&](const std::string& key, const std::string& codec) {
      if (Sound({key}) && first.empty() && IsIn(table, codec) == in) first = codec;
    });
    return Names(table).empty() ? "" : first;
  }

  void CheckPush() {
    const pb::Exchange& exchange = job_.exchange();
    if (traits_->pushes() == Traits::parameters) {
      ForEachCodec([this](const std::string& key, const std::string& codec) {
        if (!Sound({key}) || Names("float_codecs").empty() || IsIn("float_codecs", codec)) return;
        Report(
            key, codec + with_,
            OneOf(Names("float_codecs")) + ", for " + name() + " pushes the parameters themselves");
      });
      return;
    }
    CheckKept();
    const std::string sharing = FirstCodec("sharing_codecs", true);
    const bool alone = traits_->closes() == Traits::every_push;
    const bool central = Sound({"train.parameters"}) && IsCentral(job_);
    CheckScalerBefore(alone || central);
    if ((alone || central) && Sound({"exchange.scaler"}) &&
        exchange.scaler() == pb::Exchange::shared && !sharing.empty()) {
      Report("exchange.scaler",
             "shared" + (alone ? with_ : " with parameters: central") + " and codec " + sharing,
             std::string("per_worker: ") +
                 (alone ? "workers that do not wait for each other share no scalers"
                        : "servers that hold the parameters read every push alone") +
                 "; set exchange.scaler: per_worker");
    }
    if (traits_->pushes() == Traits::change && Sound({"exchange.clip"}) &&
        exchange.clip() != pb::Exchange::none && !sharing.empty()) {
      Report("exchange.clip",
             pb::Exchange::Clip_Name(exchange.clip()) + with_ + " and codec " + sharing,
             "none: " + name() +
                 " needs codes without bias, and clipped ones have one; set "
                 "exchange.clip: none");
    }
  }

  // scaler: previous, and the keys of scalers that mean nothing without their codec.
  void CheckScalerBefore(bool no_sharing) {
    const pb::Exchange& exchange = job_.exchange();
    if (!Sound({"exchange.scaler", "exchange.scaler_margin", "exchange.scaler_elements"})) return;
    const bool previous = exchange.scaler() == pb::Exchange::previous;
    if (previous && (no_sharing || traits_->pushes() != Traits::gradient)) {
      Report(
          "exchange.scaler", "previous" + with_ + (IsCentral(job_) ? ", parameters: central" : ""),
          "shared or per_worker: the scalers of a round before are those of gradients, in rounds, "
          "of workers that hold the parameters");
    }
    if (!previous && exchange.scaler_margin() != 1.1 && exchange.has_scaler_margin()) {
      Report("exchange.scaler_margin", NumberText(exchange.scaler_margin()),
             "nothing: only scaler: previous has a margin");
    }
    if (exchange.scaler_elements() != 0 && FirstCodec("sharing_codecs", true).empty()) {
      Report("exchange.scaler_elements", std::to_string(exchange.scaler_elements()),
             "0: no tensor has a ternary codec");
    }
  }

  void CheckKept() {
    if (traits_->pushes() != Traits::change) return;
    ForEachCodec([this](const std::string& key, const std::string& codec) {
      if (!Sound({key}) || Names("unbiased_codecs").empty() || IsIn("unbiased_codecs", codec))
        return;
      Report(key, codec + with_,
             OneOf(Names("unbiased_codecs")) + ", for " + name() + " needs codes without bias");
    });
  }

  void CheckPull() {
    const pb::Exchange& exchange = job_.exchange();
    if (!Sound({"exchange.pull", "exchange.pull_codec", "train.parameters"})) return;
    if (!IsCentral(job_)) {
      const std::string why =
          ", for only central parameters are pulled; or set train.parameters: central";
      if (exchange.pull() != pb::Exchange::weights)
        Report("exchange.pull", "changes with parameters: localized", "weights" + why);
      if (exchange.pull_codec() != "fp32")
        Report("exchange.pull_codec", exchange.pull_codec() + " with parameters: localized",
               "fp32" + why);
      return;
    }
    const std::string& codec = exchange.pull_codec();
    const bool drawn = !Names("rounding_codecs").empty() && !IsIn("rounding_codecs", codec);
    if (exchange.pull() == pb::Exchange::changes && drawn) {
      Report("exchange.pull_codec", codec + " with pull: changes",
             OneOf(Names("rounding_codecs")) + ", for the codes of " + codec +
                 " are drawn: what one leaves out is noise, which must not be carried over into "
                 "the next change");
    }
    if (exchange.pull() == pb::Exchange::weights && !Names("float_codecs").empty() &&
        !IsIn("float_codecs", codec)) {
      Report("exchange.pull_codec", codec + " with pull: weights",
             OneOf(Names("float_codecs")) + (drawn ? "" : "; or set exchange.pull: changes"));
    }
  }

  void CheckStaleness() {
    if (!Sound({"train.max_staleness"}) || train_.max_staleness() == 0 ||
        traits_->closes() == Traits::every_push)
      return;
    Report("train.max_staleness", std::to_string(train_.max_staleness()) + with_,
           "0, for in rounds no gradient is stale; it is for algorithms without: " +
               tern::Join(AlgorithmsThatClose(Traits::every_push)));
  }

  // Central parameters are cut into ranges; only where servers run the optimizer does it matter.
  void CheckLars() {
    if (!Sound({"train.optimizer.name", "train.parameters"}) ||
        train_.optimizer().name() != "lars" || !IsCentral(job_) ||
        traits_->pushes() != Traits::gradient)
      return;
    Report(
        "train.optimizer.name", "lars with parameters: central",
        "an optimizer by element, for a server sees parts of tensors and lars needs the norms of "
        "whole ones; or train.parameters: localized, where the algorithm knows it");
  }

  void CheckShrink() {
    const pb::Faults& faults = job_.faults();
    if (Sound({"faults.min_workers", "workers.count"}) &&
        faults.min_workers() > job_.workers().count()) {
      Report("faults.min_workers", std::to_string(faults.min_workers()), "at most " + Count());
    }
  }

  void CheckSsgd() {
    const uint32_t backup = train_.ssgd().backup_workers();
    if (!train_.has_ssgd() || !Sound({"train.ssgd.backup_workers"}) || backup == 0) return;
    if (Sound({"workers.count"}) && backup >= job_.workers().count()) {
      Report("train.ssgd.backup_workers", std::to_string(backup), "less than " + Count());
    } else if (Sound({"faults.on_worker_loss"}) &&
               job_.faults().on_worker_loss() == pb::Faults::shrink) {
      Report("faults.on_worker_loss", "shrink with backup_workers: " + std::to_string(backup),
             "fail or wait, for a round's size is fixed with backup workers; or set "
             "train.ssgd.backup_workers: 0");
    }
  }

  void CheckOdsgd() {
    if (!train_.has_odsgd()) return;
    const pb::Odsgd& odsgd = train_.odsgd();
    if (odsgd.has_warmup_steps() && odsgd.has_warmup_epochs() &&
        Sound({"train.odsgd.warmup_steps", "train.odsgd.warmup_epochs"})) {
      Report("train.odsgd.warmup_epochs", "both warmup_steps and warmup_epochs",
             "at most one of the two");
    }
    const pb::LocalUpdater& local = odsgd.local();
    const std::string& updater = local.name();
    if (!Sound({"train.odsgd.local.name"})) return;
    const auto check = [&](const std::string& key, bool written, const std::string& meant) {
      const std::string whole = Join("train.odsgd.local", key);
      if (!written || !Sound({whole})) return;
      Report(whole, "a key of the compensation with the local updater " + updater,
             "nothing, for " + updater +
                 " has none of it; take the key away, or set "
                 "train.odsgd.local.name: " +
                 meant);
    };
    if (!HasCompensation(local)) {
      check("lambda", local.has_lambda(), "dcasgd_c or dcasgd_a");
      check("reference", local.has_reference(), "dcasgd_c or dcasgd_a");
    }
    if (!HasMeanSquare(local)) check("rho", local.has_rho(), "dcasgd_a");
  }

  void CheckDcasgd() {
    const bool constant = name() == "dcasgd_c";
    if (name() != "dcasgd_c" && name() != "dcasgd_a") return;
    const pb::Dcasgd& dcasgd = constant ? train_.dcasgd_c() : train_.dcasgd_a();
    const std::string other = CodecOfOtherThanValues();
    const std::string formed = Section("formed");
    if (Sound({formed}) && dcasgd.has_formed() && dcasgd.formed() == pb::Dcasgd::on_server &&
        !other.empty()) {
      Report(formed, "on_server with codec " + other,
             "on_worker, for the term takes the gradient's square, which a code that is drawn, or "
             "that older gradients were added to, does not have; or leave the key out");
    }
    if (!constant) {
      if (Sound({formed})) CheckOneMeanSquare(dcasgd, other);
      return;
    }
    const pb::Dcasgd plain;
    const auto check = [&](const std::string& key, const std::string& saw, bool differs) {
      if (differs && Sound({Section(key)}))
        Report(Section(key), saw, "nothing, for only dcasgd_a has a mean square");
    };
    check("rho", NumberText(dcasgd.rho()), dcasgd.rho() != plain.rho());
    check("ms_scope", pb::Dcasgd::MsScope_Name(dcasgd.ms_scope()),
          dcasgd.ms_scope() != plain.ms_scope());
  }

  // The first codec of the up-link that pushes something else than the gradient, rounded at most;
  // empty if there is none.
  std::string CodecOfOtherThanValues() {
    if (!job_.exchange().error_feedback()) return FirstCodec("float_codecs", false);
    const std::string first = FirstCodec("exact_codecs", false);
    return IsIn("float_codecs", first) ? first + " and error_feedback: true" : first;
  }

  // `other`: the codec for which workers form the term; empty if only the job says so.
  void CheckOneMeanSquare(const pb::Dcasgd& dcasgd, const std::string& other) {
    const std::string key = Section("ms_scope");
    if (!Sound({key}) || dcasgd.ms_scope() != pb::Dcasgd::global ||
        !WorkersFormTerm(train_, other.empty()))
      return;
    const std::string why =
        "worker, for the workers form the term, each with the mean square of "
        "its own gradients; or ";
    if (other.empty()) {
      Report(key, "global with formed: on_worker",
             why + "set " + Section("formed") + ": on_server");
    } else {
      Report(key, "global with codec " + other,
             why + "push by " + OneOf(Names("float_codecs")) +
                 " without error_feedback, and leave " + Section("formed") + " out");
    }
  }

  void CheckSoftsync() {
    if (!train_.has_softsync() || !Sound({"train.softsync.n", "workers.count"}) ||
        train_.softsync().n() <= job_.workers().count())
      return;
    Report("train.softsync.n", std::to_string(train_.softsync().n()), "at most " + Count());
  }

  void CheckEasgd() {
    const double workers = job_.workers().count();
    if (!train_.has_easgd() || !Sound({"train.easgd.alpha", "workers.count"}) ||
        workers * train_.easgd().alpha() < 1)
      return;
    Report("train.easgd.alpha", NumberText(train_.easgd().alpha()),
           "less than 1 / " + Count() +
               ": the centre goes that part of the way to every worker, "
               "and from there on it swings without end");
  }

  const pb::Train& train_;
  const std::string with_;
  const Traits* traits_ = nullptr;
};

}  // namespace

void CheckAlgorithm(const pb::Job& job, const Reading& reading) {
  AlgorithmChecker(job, reading).Check();
}

}  // namespace tern::config
