#include "common/config/ignored_keys.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "common/algorithm/facts.h"
#include "common/base/text.h"
#include "common/config/canonical.h"
#include "common/config/node.h"
#include "common/config/uses_codec.h"

namespace tern::config {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

namespace {

constexpr size_t kMaxWarnings = 8;  // A job that sets every key gets no more lines than these.

class IgnoredKeys {
 public:
  explicit IgnoredKeys(const ParseContext& context) : context_(context) {}

  // At most kMaxWarnings, and how many more there are.
  std::vector<std::string> TakeWarnings() {
    if (warnings_.size() > kMaxWarnings) {
      const size_t num_more = warnings_.size() - kMaxWarnings;
      warnings_.resize(kMaxWarnings);
      warnings_.push_back(Cat("the job sets ", num_more, " more keys without effect"));
    }
    return std::move(warnings_);
  }

  // Finds keys of the section `key`, and of the sections in it, by their (rule).effective_if.
  void FindIn(const Message& written, const Message& complete, const std::string& key) {
    std::vector<const FieldDescriptor*> written_fields;
    written.GetReflection()->ListFields(written, &written_fields);
    for (const FieldDescriptor* field : written_fields) {
      const std::string field_key = Join(key, field->name());
      if (!HasEffect(field, complete)) {
        const std::string& other_name = RuleOf(field).effective_if().key();
        const FieldDescriptor* other = complete.GetDescriptor()->FindFieldByName(other_name);
        Warn(field_key, Join(key, other_name) + " is " + ScalarOf(complete, other));
      } else if (field->message_type() != nullptr && !field->is_repeated()) {
        FindIn(written.GetReflection()->GetMessage(written, field),
               complete.GetReflection()->GetMessage(complete, field), field_key);
      }
    }
  }

  // Finds the keys of `exchange` that only pushes with some codec read.
  void FindKeysOfPushes(const pb::Exchange& exchange) {
    if (!PushesWithCodec(exchange, "topk"))
      WarnOfSet(exchange.topk(), "exchange.topk", {"momentum", "nesterov", "masking", "clip_norm"},
                "only workers have it, and no push has codec topk");
    if (!PushesWithCodec(exchange, "threshold"))
      WarnOfSet(exchange.threshold(), "exchange.threshold", {"scope"},
                "servers send each chunk with a threshold of its own, and no push has codec "
                "threshold");
    if (!ReadsErrorFeedback(exchange))
      WarnOfSet(exchange, "exchange", {"error_feedback"},
                "no tensor has the codec fp16 or bf16; other codecs need no key, or have no error "
                "to feed back");
  }

  // Finds the keys of `exchange` that only codecs with scalers read.
  void FindKeysOfScalers(const pb::Job& written_job, const pb::Job& complete_job) {
    if (HasScalers(complete_job.exchange())) return;
    for (const std::string name : {"scaler", "max_scaler", "clip", "clip_sigma"}) {
      const FieldDescriptor* field = pb::Exchange::descriptor()->FindFieldByName(name);
      if (!HasEffect(field, complete_job.exchange())) continue;  // FindIn has found it.
      const std::string key = Join("exchange", name);
      pb::Job job_without_key = written_job;
      ClearKey(key, &job_without_key);
      FillDefaults(&job_without_key);
      if (ScalarOf(job_without_key.exchange(), field) != ScalarOf(complete_job.exchange(), field))
        Warn(key, "no tensor has a codec with scalers: a ternary one, or qsgd_shared");
    }
  }

  // Finds the keys that only jobs with rounds read, or only servers that hold the weights.
  void FindKeysOfAlgorithms(const pb::Job& written_job, const pb::Job& complete_job) {
    const algorithm::Facts facts = algorithm::FactsOf(complete_job);
    if (!facts.has_rounds) {
      const std::string reason = Cat(complete_job.train().algorithm(),
                                     " has no rounds, so the job does that only at its end");
      WarnUnlessDefault("evaluation", "every_steps", written_job.evaluation(), reason);
      WarnUnlessDefault("faults", "compare_every_steps", written_job.faults(), reason);
    }
    if (!facts.is_central) {
      for (const char* name : {"shard_every_steps", "shard_keep"})
        WarnUnlessDefault("checkpoints", name, written_job.checkpoints(),
                          "the workers hold the weights");
    }
  }

  // Finds the keys of checkpoints, a metrics page and a weight decay that the job does not have.
  void FindKeysOfWhatIsOff(const pb::Job& written_job, const pb::Job& complete_job) {
    if (complete_job.checkpoints().every_steps() == 0)
      WarnUnlessDefault("checkpoints", "keep", written_job.checkpoints(),
                        "checkpoints.every_steps is 0");
    if (complete_job.metrics().port() == 0) {
      for (const char* name : {"host", "open", "same_port"})
        WarnUnlessDefault("metrics", name, written_job.metrics(), "metrics.port is 0");
    }
    const pb::WeightDecay& decay = complete_job.train().weight_decay();
    if (decay.rate() == 0 && decay.rules().empty()) {
      for (const char* name : {"where", "biases"})
        WarnUnlessDefault("train.weight_decay", name, written_job.train().weight_decay(),
                          "train.weight_decay.rate is 0, and there are no rules");
    }
  }

  // Finds the keys of a built-in model that the job's own network says itself.
  void FindKeysOfModel(const pb::Model& model) {
    for (const char* name : {"input_channels", "input_height", "input_width"}) {
      if (model.net().has_input())
        WarnUnlessDefault("model", name, model, "model.net.input says it");
    }
    if (model.net().has_classes())
      WarnUnlessDefault("model", "classes", model, "model.net.classes says it");
  }

  // Finds a crop of the whole image, which is the same at all positions.
  void FindKeysOfCrops(const pb::Augmentation& augmentation) {
    const bool crops_a_part = augmentation.has_height() || augmentation.has_width();
    if (crops_a_part || augmentation.random_crop() == (augmentation.pad() > 0)) return;
    if (augmentation.random_crop()) {
      Warn("data.augmentation.random_crop",
           "the crop is the whole image; set pad, or height and width");
    } else {
      Warn("data.augmentation.pad",
           "the crop in the middle leaves it out again; set random_crop: true");
    }
  }

  // Finds milestones of the learning rate that the job does not reach.
  void FindLateMilestones(const pb::Train& train) {
    const auto& milestones = train.schedule().milestones();
    if (train.schedule().name() != "multistep" || !train.has_steps() || milestones.empty()) return;
    const uint64_t last = *std::max_element(milestones.begin(), milestones.end());
    if (last < train.steps()) return;
    warnings_.push_back(Cat("train.schedule.milestones: saw ", last, ", and the job has ",
                            train.steps(), " steps: the learning rate does not change there"));
  }

  // Finds a warm-up that is not shorter than the job. A number of epochs is not compared.
  void FindLongWarmup(const pb::Train& train) {
    const uint64_t warmup_steps = train.schedule().warmup_steps();
    if (warmup_steps == 0 || !train.has_steps() || warmup_steps < train.steps()) return;
    warnings_.push_back(Cat("train.schedule.warmup_steps is ", warmup_steps, ", and the job has ",
                            train.steps(),
                            " steps: the learning rate never reaches the schedule's"));
  }

 private:
  // Whether a codec for pushes has scalers. True if the caller passed no table of such codecs.
  bool HasScalers(const pb::Exchange& exchange) const {
    const auto table = context_.tables.find("sharing_codecs");
    if (table == context_.tables.end()) return true;
    const std::vector<std::string>& names = table->second;
    bool has_scalers = false;
    ForEachPushCodec(exchange, [&](const std::string&, const std::string& codec) {
      has_scalers = has_scalers || std::find(names.begin(), names.end(), codec) != names.end();
    });
    return has_scalers;
  }

  // Not of a default, which another program may have written (ToYaml).
  void WarnUnlessDefault(const std::string& section, const std::string& name,
                         const Message& written, const std::string& reason) {
    const FieldDescriptor* field = written.GetDescriptor()->FindFieldByName(name);
    if (written.GetReflection()->HasField(written, field) && !HasDefault(field, written))
      Warn(Join(section, name), reason);
  }

  // Warns of the keys of `section` that do not have their defaults, if FindIn has not found them.
  void WarnOfSet(const Message& section, const std::string& section_key,
                 const std::vector<std::string>& names, const std::string& reason) {
    for (const std::string& name : names) {
      const FieldDescriptor* field = section.GetDescriptor()->FindFieldByName(name);
      if (HasEffect(field, section) && !HasDefault(field, section))
        Warn(Join(section_key, name), reason);
    }
  }

  void Warn(const std::string& key, const std::string& reason) {
    const Position position = PositionOf(*context_.key_positions, key);
    warnings_.push_back(context_.faults->PlaceText(position) + ": " + key +
                        " has no effect, because " + reason);
  }

  const ParseContext& context_;
  std::vector<std::string> warnings_;
};

}  // namespace

std::vector<std::string> WarningsOfIgnoredKeys(const pb::Job& written_job,
                                               const pb::Job& complete_job,
                                               const ParseContext& context) {
  IgnoredKeys keys(context);
  keys.FindIn(written_job, complete_job, "");
  keys.FindKeysOfPushes(complete_job.exchange());
  keys.FindKeysOfScalers(written_job, complete_job);
  keys.FindKeysOfAlgorithms(written_job, complete_job);
  keys.FindKeysOfWhatIsOff(written_job, complete_job);
  keys.FindKeysOfModel(written_job.model());
  keys.FindKeysOfCrops(complete_job.data().augmentation());
  keys.FindLateMilestones(complete_job.train());
  keys.FindLongWarmup(complete_job.train());
  return keys.TakeWarnings();
}

}  // namespace tern::config
