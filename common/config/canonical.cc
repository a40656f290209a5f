#include "common/config/canonical.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <string>

#include "common/algorithm/algorithms.h"
#include "common/algorithm/facts.h"
#include "common/algorithm/rules.h"
#include "common/base/hash.h"
#include "common/config/fields.h"
#include "common/config/uses_codec.h"

namespace tern::config {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

namespace {

void SetDefault(const FieldDescriptor* field, Message* message) {
  const Reflection* reflection = message->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->SetInt32(message, field, field->default_value_int32());
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->SetInt64(message, field, field->default_value_int64());
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection->SetUInt32(message, field, field->default_value_uint32());
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection->SetUInt64(message, field, field->default_value_uint64());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection->SetFloat(message, field, field->default_value_float());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection->SetDouble(message, field, field->default_value_double());
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->SetBool(message, field, field->default_value_bool());
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->SetEnum(message, field, field->default_value_enum());
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->SetString(message, field, field->default_value_string());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return;
  }
}

// Calls `visit` for every message in `field`.
template <typename Visit>
void ForEachMessage(const FieldDescriptor* field, Message* message, const Visit& visit) {
  const Reflection* reflection = message->GetReflection();
  if (!field->is_repeated()) {
    if (reflection->HasField(*message, field)) visit(reflection->MutableMessage(message, field));
    return;
  }
  for (int i = 0; i < reflection->FieldSize(*message, field); ++i) {
    visit(reflection->MutableRepeatedMessage(message, field, i));
  }
}

void ClearLocalKeys(Message* message) {
  const auto* type = message->GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (RuleOf(field).local()) {
      message->GetReflection()->ClearField(message, field);
    } else if (field->message_type() != nullptr) {
      ForEachMessage(field, message, ClearLocalKeys);
    }
  }
}

bool IsCodecSection(const google::protobuf::Descriptor* message) {
  return message->file() == pb::Qsgd::descriptor()->file();
}

// Whether FillDefaults adds a missing section of this type if the job uses the section. No section
// of net.proto is added, and no outer optimizer or Lookahead: without its section a job has none.
bool IsJobSection(const google::protobuf::Descriptor* message) {
  if (message == pb::OuterOptimizer::descriptor() || message == pb::Lookahead::descriptor())
    return false;
  return message->file() == pb::Job::descriptor()->file() ||
         message->file() == pb::Optimizer::descriptor()->file() ||
         message->file() == pb::Evaluation::descriptor()->file() ||
         message->file() == pb::Exchange::descriptor()->file() ||
         message->file() == pb::Faults::descriptor()->file() ||
         message->file() == pb::Metrics::descriptor()->file() || IsCodecSection(message);
}

// Whether `field` of `message` is the section of an algorithm or codec that the job does not use.
bool IsUnusedSection(const FieldDescriptor* field, const Message& message) {
  if (IsCodecSection(field->message_type()))
    return !UsesCodec(static_cast<const pb::Exchange&>(message), field->name());
  return field->options().HasExtension(pb::traits) &&
         field->name() != static_cast<const pb::Train&>(message).algorithm();
}

// Without rounds, gradients that come late act as a momentum of their own, so that of the optimizer
// has to be asked for.
void FillOptimizerDefault(const pb::AlgorithmTraits& traits, pb::Train* train) {
  if (traits.closes() != pb::AlgorithmTraits::every_push ||
      traits.pushes() != pb::AlgorithmTraits::gradient || train->optimizer().has_name() ||
      train->optimizer().has_momentum())
    return;
  train->mutable_optimizer()->set_name("sgd");
}

// sqrt(n) / 2 and the like are numbers of levels of the 2-norm (PQASGD, section 3.3).
void FillNormDefault(pb::Qsgd* qsgd) {
  const bool has_root_levels =
      qsgd->levels() != pb::Qsgd::by_bits && qsgd->levels() != pb::Qsgd::given;
  if (has_root_levels && !qsgd->has_norm()) qsgd->set_norm(pb::Qsgd::two);
}

// Sets the missing keys whose default depends on the algorithm. Runs before the other defaults are
// set.
void FillAlgorithmDefaults(pb::Job* job) {
  const pb::AlgorithmTraits* traits = algorithm::TraitsOf(job->train());
  if (traits == nullptr) return;
  if (!job->train().has_parameters()) job->mutable_train()->set_parameters(traits->holding(0));
  pb::Exchange* exchange = job->mutable_exchange();
  // With a codec that does not send the gradient itself, workers form the term of the algorithm,
  // and pull the weights once more for it: that costs more than the codec saves.
  if (!exchange->has_codec() &&
      (traits->pushes() == pb::AlgorithmTraits::parameters || traits->has_term_key()))
    exchange->set_codec("fp32");
  if (!exchange->has_clip() && (traits->pushes() == pb::AlgorithmTraits::change ||
                                SectionOfCodec(exchange->codec()) == "qsgd_shared"))
    exchange->set_clip(pb::Exchange::none);
  const bool needs_own_scalers = traits->closes() == pb::AlgorithmTraits::every_push ||
                                 job->train().parameters() == pb::Train::central ||
                                 exchange->clip() == pb::Exchange::grace;
  if (!exchange->has_scaler() && needs_own_scalers) exchange->set_scaler(pb::Exchange::per_worker);
  FillOptimizerDefault(*traits, job->mutable_train());
  algorithm::FillOwnDefaults(job);
}

uint64_t DigestOf(const pb::Job& job) {
  std::string job_bytes;
  {
    google::protobuf::io::StringOutputStream stream(&job_bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    job.SerializeToCodedStream(&out);
  }
  return Digest(std::string_view(job_bytes));
}

}  // namespace

void FillDefaults(Message* message) {
  const Reflection* reflection = message->GetReflection();
  const auto* type = message->GetDescriptor();
  if (type == pb::Job::descriptor()) FillAlgorithmDefaults(static_cast<pb::Job*>(message));
  if (type == pb::Qsgd::descriptor()) FillNormDefault(static_cast<pb::Qsgd*>(message));
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const bool is_section = field->message_type() != nullptr && IsJobSection(field->message_type());
    if (!field->is_repeated() && !reflection->HasField(*message, field)) {
      if (is_section && !IsUnusedSection(field, *message))
        reflection->MutableMessage(message, field);
      if (field->has_default_value() && IsApplicable(field, *message)) SetDefault(field, message);
    }
    if (field->message_type() != nullptr) ForEachMessage(field, message, FillDefaults);
  }
}

pb::Job WithoutLocalKeys(const pb::Job& job) {
  pb::Job job_without_local_keys = job;
  FillDefaults(&job_without_local_keys);
  ClearLocalKeys(&job_without_local_keys);
  pb::Exchange* exchange = job_without_local_keys.mutable_exchange();
  if (exchange->rotate() == 0) exchange->clear_rotate();  // no rotation, with or without the key
  return job_without_local_keys;
}

bool MayChangeWorkers(const pb::Job& job) {
  return algorithm::FactsOf(job).has_rounds && job.train().compute() != pb::Train::client;
}

pb::Job WithoutResumableKeys(const pb::Job& job) {
  pb::Job job_without_resumable_keys = job;
  job_without_resumable_keys.clear_servers();
  job_without_resumable_keys.clear_faults();
  job_without_resumable_keys.mutable_workers()->clear_min();
  if (MayChangeWorkers(job)) {
    job_without_resumable_keys.mutable_workers()->clear_count();
    job_without_resumable_keys.mutable_workers()->clear_max();
  }
  job_without_resumable_keys.clear_metrics();
  job_without_resumable_keys.clear_checkpoints();
  job_without_resumable_keys.mutable_train()->clear_steps();
  job_without_resumable_keys.mutable_train()->clear_epochs();
  job_without_resumable_keys.mutable_train()->clear_schedule();
  job_without_resumable_keys.mutable_train()->clear_stop_when();
  job_without_resumable_keys.mutable_model()->clear_new_tensors();
  job_without_resumable_keys.clear_evaluation();
  job_without_resumable_keys.mutable_evaluation()->set_ema_decay(job.evaluation().ema_decay());
  pb::Job canonical_job = WithoutLocalKeys(job_without_resumable_keys);
  // Limits: a job that stays below them has the same result without them.
  canonical_job.mutable_exchange()->clear_max_scaler();
  canonical_job.mutable_data()->clear_max_corrupt();
  return canonical_job;
}

bool IsKey(const std::string& key) {
  const google::protobuf::Descriptor* section = pb::Job::descriptor();
  for (size_t begin = 0, dot = 0; dot != std::string::npos; begin = dot + 1) {
    dot = key.find('.', begin);
    const FieldDescriptor* field =
        section == nullptr ? nullptr : section->FindFieldByName(key.substr(begin, dot - begin));
    if (field == nullptr) return false;
    section = field->is_repeated() ? nullptr : field->message_type();
  }
  return true;
}

void ClearKey(const std::string& key, pb::Job* job) {
  if (!IsKey(key)) return;
  Message* section = job;
  size_t begin = 0;
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', begin)) {
    const FieldDescriptor* field =
        section->GetDescriptor()->FindFieldByName(key.substr(begin, dot - begin));
    const Reflection* reflection = section->GetReflection();
    if (!reflection->HasField(*section, field)) return;
    section = reflection->MutableMessage(section, field);
    begin = dot + 1;
  }
  section->GetReflection()->ClearField(
      section, section->GetDescriptor()->FindFieldByName(key.substr(begin)));
}

uint64_t JobDigest(const pb::Job& job) { return DigestOf(WithoutLocalKeys(job)); }

uint64_t StateDigest(const pb::Job& job) { return DigestOf(WithoutResumableKeys(job)); }

pb::Job JobForRank(const pb::Job& job, uint32_t rank) {
  pb::Job job_of_rank = job;
  for (const pb::WorkerOverride& override : job.workers().overrides()) {
    if (override.rank() != rank) continue;
    if (override.has_threads()) job_of_rank.mutable_workers()->set_threads(override.threads());
    if (override.has_device()) job_of_rank.mutable_workers()->set_device(override.device());
    if (override.has_gpu()) job_of_rank.mutable_workers()->set_gpu(override.gpu());
    if (override.has_cpus()) job_of_rank.mutable_workers()->set_cpus(override.cpus());
    if (override.has_data_dir()) job_of_rank.mutable_data()->set_dir(override.data_dir());
  }
  return job_of_rank;
}

}  // namespace tern::config
