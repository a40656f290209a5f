#include "common/algorithm/facts.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>

#include "common/algorithm/algorithms.h"
#include "common/base/logging.h"

namespace tern::algorithm {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Reads the section of a job's algorithm in the job's configuration. The algorithm's traits
// (AlgorithmTraits of job.proto) give the names of the keys. A key that the job omits has its
// default. GetUInt32 returns `default_value` if `key` is empty, because the algorithm has no such
// key.
class Section {
 public:
  Section(const pb::Train& train, const FieldDescriptor* field)
      : name_("train." + field->name()),
        message_(train.GetReflection()->GetMessage(train, field)),
        reflection_(*message_.GetReflection()) {}

  uint32_t GetUInt32(const std::string& key, uint32_t default_value) const {
    return key.empty() ? default_value : reflection_.GetUInt32(message_, FieldOf(key));
  }
  bool GetBool(const std::string& key, bool default_value = false) const {
    return IsWritten(key) ? reflection_.GetBool(message_, FieldOf(key)) : default_value;
  }
  double GetDouble(const std::string& key) const {
    return reflection_.GetDouble(message_, FieldOf(key));
  }
  // The name of the enum value at the key.
  const std::string& GetEnumName(const std::string& key) const {
    return reflection_.GetEnum(message_, FieldOf(key))->name();
  }
  bool IsWritten(const std::string& key) const {
    return reflection_.HasField(message_, FieldOf(key));
  }
  std::string FullName(const std::string& key) const { return name_ + "." + key; }

  // Returns the section's key whose value is of that message type; null if there is none.
  const FieldDescriptor* FindKeyOfType(const google::protobuf::Descriptor* type) const {
    const auto* type_of_section = message_.GetDescriptor();
    for (int i = 0; i < type_of_section->field_count(); ++i) {
      if (type_of_section->field(i)->message_type() == type) return type_of_section->field(i);
    }
    return nullptr;
  }
  // Whether the job has the section `key`, the result of FindKeyOfType.
  bool HasMessage(const FieldDescriptor* key) const { return reflection_.HasField(message_, key); }
  const Message& MessageOf(const FieldDescriptor* key) const {
    return reflection_.GetMessage(message_, key);
  }

 private:
  const FieldDescriptor* FieldOf(const std::string& key) const {
    const FieldDescriptor* field = message_.GetDescriptor()->FindFieldByName(key);
    CHECK(field != nullptr) << "job.proto: the traits of " << name_ << " name a key " << key;
    return field;
  }

  const std::string name_;
  const Message& message_;
  const Reflection& reflection_;
};

void SetRounds(const pb::AlgorithmTraits& traits, const Section& section, Facts* facts) {
  facts->has_rounds = traits.closes() == pb::AlgorithmTraits::all_come;
  facts->window = traits.window();
  facts->period = std::max(1u, section.GetUInt32(traits.period_key(), 1));
  facts->exchanges_in_next_step = traits.exchanges() == pb::AlgorithmTraits::in_next_step;
  facts->may_cut_period_short =
      facts->has_rounds && traits.has_period_key() && !facts->exchanges_in_next_step;
  facts->rounds_a_period = traits.rounds_a_period();
  facts->exchanges_ahead = traits.ahead();
  facts->num_backup_workers = section.GetUInt32(traits.backup_key(), 0);
  if (traits.has_bound_key()) facts->max_steps_ahead = section.GetUInt32(traits.bound_key(), 0);
}

// `facts` has the period without parts. With parts that take turns within it, the exchanges of
// parts have even rounds; the odd round after the last of them exchanges what workers still have.
void SetParts(const pb::AlgorithmTraits& traits, const Section& section, Facts* facts) {
  if (!traits.has_parts_key()) return;
  facts->num_parts = section.GetUInt32(traits.parts_key(), 0);
  facts->parts_key = section.FullName(traits.parts_key());
  if (!traits.has_period_key()) return;
  if (facts->num_parts <= 1) {
    facts->num_parts = 0;
    return;
  }
  facts->period = std::max<uint64_t>(1, facts->period / facts->num_parts);
  facts->may_cut_period_short = false;
  facts->rounds_a_period = facts->window = 2;
  if (traits.has_overlap_key())
    facts->exchanges_ahead = section.GetBool(traits.overlap_key(), true) ? 1 : 0;
}

void SetLocalUpdater(const Section& section, Facts* facts) {
  const FieldDescriptor* key = section.FindKeyOfType(pb::LocalUpdater::descriptor());
  if (key == nullptr) return;
  facts->local_updater = static_cast<const pb::LocalUpdater*>(&section.MessageOf(key));
  facts->local_updater_key = section.FullName(key->name());
}

// Sets *part to the message of type Part in the algorithm's section, and *name to its key, if the
// job has one.
template <typename Part>
void SetOptionalPart(const Section& section, const Part** part, std::string* name) {
  const FieldDescriptor* key = section.FindKeyOfType(Part::descriptor());
  if (key == nullptr || !section.HasMessage(key)) return;
  *part = static_cast<const Part*>(&section.MessageOf(key));
  *name = section.FullName(key->name());
}

void SetFeedback(const pb::AlgorithmTraits& traits, const Section& section, Facts* facts) {
  if (!traits.has_feedback_key()) return;
  facts->allows_feedback = section.GetBool(traits.feedback_key());
  facts->feedback_key = section.FullName(traits.feedback_key());
}

}  // namespace

uint64_t Facts::StepOfRound(uint64_t round) const {
  if (round == 0) return 0;
  return round / rounds_a_period * period + (has_rounds && exchanges_in_next_step ? 1 : 0);
}

uint64_t Facts::StepOfRound(uint64_t round, uint64_t steps) const {
  const uint64_t step = StepOfRound(round);
  return may_cut_period_short ? std::min(step, steps) : step;
}

uint64_t Facts::RoundOfStep(uint64_t step) const {
  const uint64_t steps_exchanged =
      has_rounds && exchanges_in_next_step ? std::max<uint64_t>(step, 2) - 1 : step;
  return (steps_exchanged + period - 1) / period * rounds_a_period;
}

uint64_t Facts::LastRoundEnd(uint64_t step) const {
  if (!has_rounds) return step;
  const uint64_t first = exchanges_in_next_step ? 1 : 0;
  const uint64_t periods = step < first ? 0 : (step - first) / period;
  return periods == 0 ? 0 : periods * period + first;
}

bool Facts::EndsRound(uint64_t step, uint64_t steps) const {
  return StepOfRound(RoundOfStep(step), steps) == step;
}

uint64_t Facts::PushesOfJob(uint64_t steps, uint32_t workers) const {
  return (steps * workers + period - 1) / period;
}

uint64_t Facts::StepsOfPushes(uint64_t pushes, uint32_t workers) const {
  return pushes * period / workers;
}

Facts FactsOf(const pb::Job& job) {
  Facts facts;
  const pb::Train& train = job.train();
  facts.is_central = train.parameters() == pb::Train::central;
  const FieldDescriptor* field = SectionOf(train);
  if (field == nullptr) return facts;
  const pb::AlgorithmTraits& traits = field->options().GetExtension(pb::traits);
  const Section section(train, field);
  SetRounds(traits, section, &facts);
  SetLocalUpdater(section, &facts);
  SetOptionalPart(section, &facts.outer_optimizer, &facts.outer_optimizer_key);
  SetOptionalPart(section, &facts.lookahead, &facts.lookahead_key);
  facts.has_average = job.evaluation().ema_decay() > 0 || facts.lookahead != nullptr;
  SetFeedback(traits, section, &facts);
  facts.pushed_quantity = traits.pushes();
  facts.averages_state =
      traits.has_state_key() && section.GetEnumName(traits.state_key()) == "average";
  SetParts(traits, section, &facts);
  facts.has_own_point = traits.own_point();
  if (traits.has_elastic_key()) facts.elastic_rate = section.GetDouble(traits.elastic_key());
  facts.applies_by_bucket = facts.pushed_quantity == pb::AlgorithmTraits::gradient &&
                            !facts.is_central && job.faults().on_worker_loss() == pb::Faults::fail;
  // A client waits for the mean of its gradients, so it must not wait for its next step.
  facts.applies_in_forward = traits.applied_in_forward() && facts.applies_by_bucket &&
                             job.exchange().overlap() && train.compute() != pb::Train::client;
  facts.stays_on_device = traits.stays_on_device();
  facts.has_term = traits.has_term_key();
  if (facts.has_term && section.IsWritten(traits.term_key()))
    facts.term_on_worker = section.GetEnumName(traits.term_key()) == "on_worker";
  return facts;
}

}  // namespace tern::algorithm
