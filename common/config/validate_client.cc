#include "common/algorithm/facts.h"
#include "common/base/text.h"
#include "common/config/cross_key_checker.h"
#include "common/config/rules.h"
#include "common/config/validate.h"

namespace tern::config {
namespace {

class ClientChecker : private CrossKeyChecker {
 public:
  ClientChecker(const pb::Job& job, const ParseContext& context) : CrossKeyChecker(job, context) {}

  void CheckClient() {
    CheckMeaninglessKeys(
        job_, "",
        "the client's own program has its model, data, optimizer and length, and its "
        "own threads, device and event files");
    const algorithm::Facts facts = algorithm::FactsOf(job_);
    const bool only_exchanges = facts.has_rounds && !facts.has_own_point && facts.period == 1 &&
                                facts.pushed_quantity == pb::AlgorithmTraits::gradient;
    if (AreValid({"train.algorithm"}) && !only_exchanges) {
      Report(
          "train.algorithm", Excerpt(job_.train().algorithm()),
          "with compute: client, an algorithm that only takes the mean of the workers' gradients, "
          "as the default does, because the clients update their weights themselves; with compute: "
          "module, Tern updates them, by any algorithm");
    }
    if (AreValid({"train.parameters"}) && job_.train().parameters() != pb::Train::localized) {
      Report("train.parameters", "central",
             "localized with compute: client, because the clients hold the weights");
    }
  }

  void CheckModule() {
    CheckMeaninglessKeys(job_, "",
                         "the program has the module and the data, and an epoch's length, threads, "
                         "device and event files are its affair");
    if (AreValid({"train.parameters", "train.algorithm", "model.weights"}) &&
        algorithm::FactsOf(job_).is_central && !job_.model().has_weights()) {
      Report("model.weights", "nothing",
             "a file with the first weights, because with this algorithm the servers hold the "
             "weights; tern.torch.save_weights(module, FILE) writes it, and all daemons read it");
    }
  }

 private:
  // Reports the keys that the job has, but that mean nothing in it. `why`: the end of the sentence.
  void CheckMeaninglessKeys(const google::protobuf::Message& section, const std::string& name,
                            const std::string& why) {
    const google::protobuf::Descriptor* type = section.GetDescriptor();
    const google::protobuf::Reflection& fields = *section.GetReflection();
    for (int i = 0; i < type->field_count(); ++i) {
      const google::protobuf::FieldDescriptor* field = type->field(i);
      const std::string key = Join(name, field->name());
      const bool is_removed =  // by an override with null, which leaves its position
          field->is_repeated() && fields.FieldSize(section, field) == 0;
      if (IsMeaningless(field, context_.compute)) {
        if (!is_removed) ReportIfGiven(key, why);
      } else if (field->message_type() != nullptr && !field->is_repeated()) {
        CheckMeaninglessKeys(fields.GetMessage(section, field), key, why);
      }
    }
  }

  void ReportIfGiven(const std::string& key, const std::string& why) {
    // An override may give a key of a section, without the section itself.
    const auto given = context_.key_positions->lower_bound(key);
    if (given == context_.key_positions->end()) return;
    if (given->first != key && given->first.rfind(key + ".", 0) != 0) return;
    Report(given->first, Cat("this key with compute: ", pb::Train::Compute_Name(context_.compute)),
           "nothing: " + why);
  }
};

}  // namespace

void CheckClient(const pb::Job& job, const ParseContext& context) {
  ClientChecker(job, context).CheckClient();
}

void CheckModule(const pb::Job& job, const ParseContext& context) {
  ClientChecker(job, context).CheckModule();
}

}  // namespace tern::config
