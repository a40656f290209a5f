// The rules about the sections of codecs in `exchange`: which sections a job may have, and which of
// their keys go with the algorithm, the optimizer, the scalers and the place of the parameters.
#include "common/algorithm/algorithms.h"
#include "common/algorithm/facts.h"
#include "common/base/text.h"
#include "common/config/cross_key_checker.h"
#include "common/config/uses_codec.h"
#include "common/config/validate.h"

namespace tern::config {
namespace {

class CodecChecker : private CrossKeyChecker {
 public:
  CodecChecker(const pb::Job& job, const ParseContext& context) : CrossKeyChecker(job, context) {}

  void Check() {
    CheckSections();
    CheckMomentumOfTopK();
    CheckSumsOfQsgd();
    CheckSharedNorms();
    CheckRotation();
    CheckHostSum();
  }

 private:
  bool UsesCodec(const std::string& name) const { return config::UsesCodec(job_.exchange(), name); }

  // Reports sections of codecs that the job does not use.
  void CheckSections() {
    const pb::Exchange& exchange = job_.exchange();
    std::vector<const google::protobuf::FieldDescriptor*> fields_in_job;
    exchange.GetReflection()->ListFields(exchange, &fields_in_job);
    for (const auto* field : fields_in_job) {
      if (field->message_type() == nullptr || field->is_repeated()) continue;
      const std::string key = Join("exchange", field->name());
      if (UsesCodec(field->name()) || !AreValid({key})) continue;
      Report(key, "a section of " + field->name() + ", which the job does not use",
             "sections of the codecs in use; remove this one, or set exchange.codec: " +
                 field->name());
    }
  }

  // Deep gradient compression applies momentum before it selects elements, so the optimizer must
  // not apply it again. What servers send has no such momentum (ignored_keys.cc).
  void CheckMomentumOfTopK() {
    const pb::TopK& topk = job_.exchange().topk();
    const std::string& optimizer = job_.train().optimizer().name();
    if (!PushesWithCodec(job_.exchange(), "topk") || topk.momentum() == 0) return;
    const pb::AlgorithmTraits* traits = algorithm::TraitsOf(job_.train());
    if (traits != nullptr && traits->pushes() == pb::AlgorithmTraits::change &&
        AreValid({"exchange.topk.momentum", "train.algorithm"}))
      return Report(
          "exchange.topk.momentum",
          NumberText(topk.momentum()) + " with algorithm: " + job_.train().algorithm(),
          "0, because it is a momentum of gradients, and workers push changes of weights; "
          "the outer optimizer has one");
    if (optimizer == "sgd" || !AreValid({"exchange.topk.momentum", "train.optimizer.name"})) return;
    Report("exchange.topk.momentum",
           NumberText(topk.momentum()) + " with train.optimizer.name: " + optimizer,
           "0, because momentum would apply twice; or set train.optimizer.name: sgd");
  }

  void CheckSumsOfQsgd() {
    if (!UsesCodec("qsgd") || job_.exchange().qsgd().sums() == pb::Qsgd::coded ||
        job_.train().parameters() != pb::Train::central)
      return;
    if (!AreValid({"exchange.qsgd.sums", "train.parameters"})) return;
    Report(
        "exchange.qsgd.sums", "exact with parameters: central",
        "coded, because servers that hold the parameters apply the mean of the codes themselves, "
        "without coding it again; remove the key");
  }

  // Reports codecs that need a scaler of all workers where each worker must have its own.
  void CheckSharedNorms() {
    if (!AreValid({"train.algorithm", "train.parameters", "exchange.scaler"}) ||
        algorithm::TraitsOf(job_.train()) == nullptr)
      return;
    const algorithm::Facts facts = algorithm::FactsOf(job_);
    // CheckAlgorithm says which codecs parameters may have, and qsgd is none of them.
    if (facts.pushed_quantity == pb::AlgorithmTraits::parameters) return;
    const bool has_own_scalers = job_.exchange().scaler() == pb::Exchange::per_worker;
    if (facts.has_rounds && !facts.is_central && !has_own_scalers) return;
    ForEachPushCodec(job_.exchange(), [&](const std::string& key, const std::string& codec) {
      if (!AreValid({key}) || !IsInTable("only_sharing_codecs", codec)) return;
      if (facts.has_rounds && !facts.is_central)
        return Report(
            key, codec + " with scaler: per_worker",
            Cat("qsgd, whose norms are each worker's own; or set exchange.scaler: shared",
                job_.exchange().clip() == pb::Exchange::grace ? " and exchange.clip: none" : ""));
      Report(
          key,
          codec + " with " +
              (facts.has_rounds ? "parameters: central" : "algorithm: " + job_.train().algorithm()),
          "a codec whose codes a server can decode alone, e.g. qsgd, because all workers of a "
          "round share the norms of " +
              codec);
    });
  }

  // Checks the size of rotated blocks, and that a codec rotates them and that workers decode them.
  void CheckRotation() {
    const pb::Exchange& exchange = job_.exchange();
    const uint64_t block = exchange.rotate();
    const std::string block_text = std::to_string(block);
    if (block == 0 || !AreValid({"exchange.rotate"})) return;
    if (block < 64 || (block & (block - 1)) != 0)
      return Report("exchange.rotate", block_text, "0, or a power of two from 64 to 65536");
    CheckWhoRotates(block_text);
    if (AreValid({"exchange.scaler_elements"}) && exchange.scaler_elements() % block != 0)
      Report("exchange.scaler_elements", std::to_string(exchange.scaler_elements()),
             "0, or a multiple of exchange.rotate (" + block_text +
                 "), because elements that are rotated together have one scaler");
  }
  void CheckWhoRotates(const std::string& block_text) {
    bool any_is_drawn = false, all_are_known = true;
    ForEachPushCodec(job_.exchange(), [&](const std::string& key, const std::string& codec) {
      all_are_known = all_are_known && AreValid({key});
      any_is_drawn = any_is_drawn || !IsInTable("rounding_codecs", codec);
    });
    if (all_are_known && !any_is_drawn)
      return Report("exchange.rotate", block_text,
                    "0, because no tensor has a codec with random codes: a ternary one, qsgd or "
                    "qsgd_shared");
    if (AreValid({"train.parameters"}) && job_.train().parameters() == pb::Train::central)
      Report("exchange.rotate", block_text + " with parameters: central",
             "0, because only workers rotate back what they decode, and here servers decode; or "
             "set train.parameters: localized, if the algorithm supports it");
  }

  // Checks that hosts can add up the pushes of their workers.
  void CheckHostSum() {
    const std::string key = "exchange.host_sum", no_host_sum = "; or set exchange.host_sum: false";
    if (!job_.exchange().host_sum() || !AreValid({key, "train.algorithm", "train.parameters"}) ||
        algorithm::TraitsOf(job_.train()) == nullptr)
      return;
    const algorithm::Facts facts = algorithm::FactsOf(job_);
    if (!facts.has_rounds)
      return Report(key, "true with algorithm: " + job_.train().algorithm(),
                    "false, because only pushes of one round can be added up");
    if (facts.is_central)
      return Report(key, "true with parameters: central",
                    "false, because servers that hold the parameters decode every push by itself; "
                    "or set train.parameters: localized, if the algorithm supports it");
    if (facts.num_backup_workers != 0)
      return Report(key,
                    "true with " + std::to_string(facts.num_backup_workers) + " backup workers",
                    "false, because a sum of a host waits for all its workers; or set "
                    "backup_workers: 0");
    ForEachPushCodec(job_.exchange(), [&](const std::string& codec_key, const std::string& codec) {
      if (!AreValid({codec_key}) || NamesInTable("adding_codecs").empty()) return;
      if (!IsInTable("adding_codecs", codec))
        return Report(
            codec_key, codec + " with host_sum: true",
            OneOf(NamesInTable("adding_codecs")) + ", whose codes can be added up" + no_host_sum);
      if (job_.exchange().scaler() == pb::Exchange::per_worker &&
          IsInTable("sharing_codecs", codec) && AreValid({"exchange.scaler"}))
        Report("exchange.scaler", "per_worker with host_sum: true and codec " + codec,
               "shared or previous, because codes with different scalers cannot be added up" +
                   no_host_sum);
    });
  }
};

}  // namespace

void CheckCodecs(const pb::Job& job, const ParseContext& context) {
  CodecChecker(job, context).Check();
}

}  // namespace tern::config
