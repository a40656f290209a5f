#include "setup/setup.h"

#include <google/protobuf/util/json_util.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "common/algorithm/algorithms.h"
#include "common/base/atomic_file.h"
#include "common/base/hash.h"
#include "common/base/host_name.h"
#include "common/base/text.h"
#include "common/codec/codec.h"
#include "common/codec/codecs.h"
#include "common/config/canonical.h"
#include "common/config/differences.h"
#include "common/config/key_digests.h"
#include "common/protocol/plan/layout.h"
#include "common/protocol/rounds/cells.h"
#include "common/update/local_updater.h"
#include "common/update/optimizer.h"
#include "common/update/schedule.h"
#include "models/graph/tensor_table.h"
#include "models/models.h"
#include "setup/environment.h"
#include "setup/net_check.h"
#include "setup/norm_check.h"
#include "setup/tensor_rates.h"

namespace tern::setup {

namespace {

protocol::Time FromSeconds(double seconds) {
  return protocol::Time(static_cast<int64_t>(seconds * 1e9));
}

// The number of elements of the job's confusion matrix; 0 if the job asks for none.
Result<uint64_t> ConfusionMatrixSize(const Setup& setup) {
  constexpr uint64_t kMaxClasses = 2000;
  const uint64_t classes = setup.net.classes();
  if (!setup.job.evaluation().confusion()) return uint64_t{0};
  if (classes <= kMaxClasses) return classes * classes;
  return Status(Code::kBadJob, "evaluation.confusion: the model has " + std::to_string(classes) +
                                   " classes, and a confusion matrix has at most " +
                                   std::to_string(kMaxClasses) + " classes; leave the key out");
}

protocol::Timings TimingsOf(const pb::Faults& faults) {
  protocol::Timings timings;
  timings.heartbeat = FromSeconds(faults.heartbeat_ms() / 1000);
  timings.suspect_after = FromSeconds(faults.suspect_after_s());
  timings.dead_after = FromSeconds(faults.dead_after_s());
  timings.start_timeout = FromSeconds(faults.start_timeout_s());
  timings.wait_timeout = FromSeconds(faults.wait_timeout_s());
  timings.server_return_timeout = FromSeconds(faults.server_return_timeout_s());
  timings.hello_retry = FromSeconds(0.1);
  // Resending is rarely needed, because a connection loses no messages while it is up. The time is
  // long because whole pushes are sent again, but no job stands for 5 s without a word in a log.
  timings.resend_after = FromSeconds(4);
  timings.progress_timeout = FromSeconds(faults.progress_timeout_s());
  return timings;
}

// Derives the exchange plan from the job and the table. `num_slots`: the arrays of the optimizer's
// state.
Status SetPlan(const pb::Job& job, size_t num_slots, Setup* setup) {
  TERN_RETURN_IF_ERROR(CheckTensorRules(setup->job, setup->table));
  std::vector<protocol::TensorInfo> tensors;
  for (const models::Parameter& parameter : setup->table.parameters)
    tensors.push_back(
        {parameter.name, parameter.count, parameter.is_bias ? parameter.count : parameter.fan_in});
  Result<protocol::ExchangePlan> plan =
      protocol::ExchangePlan::Make(job, tensors, static_cast<uint32_t>(num_slots));
  if (!plan.ok()) return plan.status();
  setup->plan = std::move(*plan);
  return Ok();
}

pb::Hello HelloOf(const Setup& setup, uint64_t model_digest) {
  pb::Hello hello;
  hello.set_job(setup.job.name());
  hello.set_job_digest(config::JobDigest(setup.job));
  hello.set_model_digest(model_digest);
  hello.set_plan_digest(setup.plan.digest);
  for (const uint32_t digest : config::KeyDigests(setup.job)) hello.add_key_digests(digest);
  if (setup.launch != 0) hello.set_launch(setup.launch);
  hello.set_host(HostName());
  hello.set_pid(static_cast<uint32_t>(getpid()));
  return hello;
}

pb::ImageShape InputOf(const pb::Model& model) {
  if (model.net().has_input()) return model.net().input();
  pb::ImageShape shape;
  shape.set_channels(model.input_channels());
  shape.set_height(model.input_height());
  shape.set_width(model.input_width());
  return shape;
}

uint32_t ClassesOf(const pb::Model& model) {
  return model.net().has_classes() ? model.net().classes() : model.classes();
}

std::vector<std::string> CodecsWithProperty(bool (*has_property)(const codec::Codec& codec),
                                            const codec::Options& options = {}) {
  std::vector<std::string> names;
  for (const std::string& name : codec::CodecNames()) {
    const auto codec = codec::MakeCodec(name, options);
    if (codec.ok() && has_property(**codec)) names.push_back(name);
  }
  return names;
}

}  // namespace

config::NameTables KnownNames() {
  codec::Options with_feedback;
  with_feedback.error_feedback = true;
  return {
      {"models", models::ModelNames()},
      {"codecs", codec::CodecNames()},
      {"float_codecs", CodecsWithProperty(&codec::SendsValues)},
      {"exact_codecs", CodecsWithProperty(&codec::SendsValues, with_feedback)},
      {"rounding_codecs",
       CodecsWithProperty([](const codec::Codec& c) { return !c.is_stochastic(); })},
      {"unbiased_codecs", CodecsWithProperty([](const codec::Codec& c) { return !c.HasMemory(); })},
      {"sharing_codecs",
       CodecsWithProperty([](const codec::Codec& c) { return c.shares_scaler(); })},
      {"adding_codecs",
       CodecsWithProperty([](const codec::Codec& c) { return c.adds_partial_sums(); })},
      {"only_sharing_codecs",
       CodecsWithProperty([](const codec::Codec& c) { return !codec::CanDecodeAlone(c.name()); })},
      {"algorithms", algorithm::AlgorithmNames()},
      {"local_updaters", update::LocalUpdaterNames()},
      {"optimizers", update::OptimizerNames()},
      {"outer_optimizers", update::OuterOptimizerNames()},
      {"schedules", update::ScheduleNames()}};
}

std::vector<std::string> FrozenPatterns(const pb::Job& job) {
  return {job.train().freeze().begin(), job.train().freeze().end()};
}

namespace {

// Derives the plan of a job in which Tern updates the weights. Makes optimizer and schedule only to
// report their errors before a worker connects. The schedule's errors do not depend on the number
// of steps, which may not be known yet.
Status SetPlanAndCheckUpdates(Setup* setup) {
  auto optimizer = update::MakeOptimizer(setup->job.train().optimizer(), 0);
  if (!optimizer.ok()) return optimizer.status();
  TERN_RETURN_IF_ERROR(SetPlan(setup->job, (*optimizer)->StateArrays().size(), setup));
  setup->plan.num_statistics = setup->table.statistics_total;
  return update::Schedule::Make(setup->job.train(), 1).status();
}

// Derives the table from the job's network.
Status SetNet(Setup* setup) {
  const pb::Model& model = setup->job.model();
  Result<pb::NetDef> net = models::BuildNet(model, InputOf(model), ClassesOf(model));
  if (!net.ok()) return net.status();
  setup->net = std::move(*net);
  Result<models::ParameterTable> table =
      models::MakeParameterTable(setup->net, FrozenPatterns(setup->job));
  if (!table.ok()) return table.status();
  setup->table = std::move(*table);
  TERN_RETURN_IF_ERROR(CheckBatchNorms(setup->job, setup->net, setup->table));
  TERN_RETURN_IF_ERROR(CheckTensorSizes(setup->job, setup->net));
  TERN_RETURN_IF_ERROR(SetPlanAndCheckUpdates(setup));
  const Result<uint64_t> confusion_elements = ConfusionMatrixSize(*setup);
  if (!confusion_elements.ok()) return confusion_elements.status();
  setup->plan.num_confusion_entries = *confusion_elements;
  for (std::string& warning : WarningsOfNet(setup->job, setup->net, setup->table))
    setup->job_warnings.push_back(std::move(warning));
  setup->hello = HelloOf(*setup, models::ModelDigest(setup->net));
  return Ok();
}

Status ReadTensors(const std::string& path, Setup* setup) {
  constexpr size_t kMaxBytes = 16 << 20;
  const Result<std::string> text = ReadWholeFile(path, kMaxBytes);
  if (!text.ok()) return text.status().Within("the file of the job's tensors");
  pb::TensorTable tensors;
  if (const auto parsed = google::protobuf::util::JsonStringToMessage(*text, &tensors);
      !parsed.ok()) {
    return Status(Code::kBadData,
                  Cat(path, ": ", Printable(parsed.ToString()),
                      "; expected JSON as tern.torch.describe writes it: {\"tensors\": [{\"name\": "
                      "\"fc.weight\", \"shape\": [10, 84]}, ...]}"));
  }
  return SetTensors(tensors, setup).Within(path);
}

}  // namespace

namespace {

// Numbers that a program exchanges beside its gradients have names that begin with "tern.". They
// travel as they are, whatever the job's codec.
pb::Job WithNumbersOfProgramsAsTheyAre(const pb::Job& job) {
  pb::Job changed = job;
  auto* rules = changed.mutable_exchange()->mutable_rules();
  rules->Clear();
  pb::CodecRule* rule = rules->Add();
  rule->set_tensors("tern.*");
  rule->set_codec("fp32");
  rules->MergeFrom(job.exchange().rules());
  return changed;
}

// A client that returns gets the state of another's program, and no codec's memory: all go back.
Status CheckCodecsOfClient(const Setup& setup) {
  if (setup.job.faults().on_worker_loss() != pb::Faults::wait) return Ok();
  if (setup.job.checkpoints().every_steps() != 0) return Ok();
  for (size_t t = 0; t < setup.plan.codec_of.size(); ++t) {
    if (!setup.plan.codec_of[t]->HasMemory()) continue;
    return Status(Code::kBadJob,
                  Cat("faults.on_worker_loss: saw wait, and for ", setup.table.parameters[t].name,
                      " a codec with a memory of earlier gradients, which is lost with a client; "
                      "choose a codec without one, checkpoints to go back to "
                      "(checkpoints.every_steps), or fail"));
  }
  return Ok();
}

// States and checkpoints have Tern's own arrays under these names, beside the module's tensors.
Status CheckNamesOfModule(const models::ParameterTable& table) {
  for (const models::Parameter& parameter : table.parameters) {
    const std::string& name = parameter.name;
    for (const char* prefix : {"optimizer.", "average.", "local.", "scalers.", "codec.",
                               "statistics", "mean_statistics", "evaluations"}) {
      if (name.rfind(prefix, 0) != 0) continue;
      return Status(Code::kBadData,
                    Cat("tensor ", name, ": saw a name that begins with '", prefix,
                        "', as names of Tern's own do; call that part of the module otherwise"));
    }
  }
  return Ok();
}

}  // namespace

Status SetTensors(const pb::TensorTable& tensors, Setup* setup) {
  Result<models::ParameterTable> table = models::TableOfTensors(tensors);
  if (!table.ok()) return table.status();
  setup->table = std::move(*table);
  if (IsModuleJob(setup->job)) {
    TERN_RETURN_IF_ERROR(CheckNamesOfModule(setup->table));
    TERN_RETURN_IF_ERROR(SetPlanAndCheckUpdates(setup));
  } else {
    TERN_RETURN_IF_ERROR(SetPlan(WithNumbersOfProgramsAsTheyAre(setup->job), 0, setup));
    TERN_RETURN_IF_ERROR(CheckCodecsOfClient(*setup));
  }
  setup->hello = HelloOf(*setup, models::TensorTableDigest(tensors));
  setup->tensor_table = tensors.SerializeAsString();
  if (setup->tensor_table.size() <= kMaxTensorTableBytes) return Ok();
  return Status(Code::kBadData,
                Cat("saw a table of tensors of ", setup->tensor_table.size(),
                    " bytes; allowed: ", kMaxTensorTableBytes, "; give the tensors shorter names"));
}

Result<pb::Job> LoadJob(const std::string& path, const std::vector<std::string>& overrides,
                        std::vector<std::string>* warnings) {
  return config::LoadJob(path, overrides, KnownNames(), PlaceOf(ProcessEnvironment()), warnings);
}

Result<std::unique_ptr<Setup>> MakeSetupWithoutTensors(const std::string& path,
                                                       const std::vector<std::string>& overrides) {
  std::vector<std::string> job_warnings;
  Result<pb::Job> job = LoadJob(path, overrides, &job_warnings);
  if (!job.ok()) return job.status();
  const Result<uint64_t> launch = LaunchOf(ProcessEnvironment());
  if (!launch.ok()) return launch.status();
  auto setup = std::make_unique<Setup>();
  setup->job = std::move(*job);
  setup->job_warnings = std::move(job_warnings);
  setup->launch = *launch;
  setup->place_lines = DescribePlace(PlaceOf(ProcessEnvironment()), setup->job);
  setup->timings = TimingsOf(setup->job.faults());
  if (HasForeignTable(setup->job)) {
    setup->hello = HelloOf(*setup, 0);
    return setup;
  }
  if (const Status status = SetNet(setup.get()); !status.ok()) return status.Within(path);
  return setup;
}

Result<std::unique_ptr<Setup>> MakeSetup(const std::string& path,
                                         const std::vector<std::string>& overrides) {
  auto setup = MakeSetupWithoutTensors(path, overrides);
  if (!setup.ok() || !HasForeignTable((*setup)->job)) return setup;
  const pb::Job& job = (*setup)->job;
  if (job.train().tensors().empty()) {
    return Status(
        Code::kBadJob,
        Cat(path, ": train.compute: saw ", pb::Train::Compute_Name(job.train().compute()),
            ", so the workers are programs of yours, and "
            "this command does not know their tensors; `tern launch --job ",
            path,
            " -- PROGRAM` starts them and the servers on this machine; or, to look at "
            "the job, write the tensors to a file with tern.torch.describe(model) and give "
            "--set train.tensors=FILE"));
  }
  TERN_RETURN_IF_ERROR(ReadTensors(job.train().tensors(), setup->get()));
  return setup;
}

namespace {

// The function that computes tags of checkpoints; null without a secret.
checkpoint::TagFunction TagOf(const std::shared_ptr<const net::SecretKey>& secret) {
  if (secret == nullptr) return nullptr;
  return [secret](std::string_view manifest, std::string_view state) {
    crypto_generichash_state hash;
    std::array<uint8_t, crypto_generichash_BYTES> tag{};
    crypto_generichash_init(&hash, secret->data(), net::SecretKey::kSize, tag.size());
    // The size in front says where the manifest ends and the state begins.
    const uint64_t manifest_bytes = manifest.size();
    crypto_generichash_update(&hash, reinterpret_cast<const uint8_t*>(&manifest_bytes),
                              sizeof manifest_bytes);
    for (const std::string_view part : {manifest, state})
      crypto_generichash_update(&hash, reinterpret_cast<const uint8_t*>(part.data()), part.size());
    crypto_generichash_final(&hash, tag.data(), tag.size());
    std::array<char, 2 * crypto_generichash_BYTES + 1> text{};
    sodium_bin2hex(text.data(), text.size(), tag.data(), tag.size());
    return std::string(text.data());
  };
}

}  // namespace

checkpoint::Owner CheckpointOwner(const Setup& setup, const std::string& output_dir,
                                  const std::string& name) {
  // Checkpoints do not contain frozen parameters, so they belong to the file that does.
  uint64_t model_digest = setup.hello.model_digest();
  if (setup.frozen_digest != 0) model_digest = Digest(Hex(model_digest) + Hex(setup.frozen_digest));
  const auto is_same_as = [](const pb::Job& job) {
    return [job](const std::string& text) {
      // The defaults of keys that an earlier version did not have are filled in.
      const Result<pb::Job> old_job = config::ReadJobText(text);
      return old_job.ok() && config::DifferencesAtResume(*old_job, job).empty();
    };
  };
  pb::Job strict_job = setup.job;
  strict_job.mutable_checkpoints()->clear_accept();
  return {
      .folder = output_dir + "/checkpoints/" + name,
      .name = name,
      .workers = setup.plan.workers,
      .job_digest = config::StateDigest(setup.job),
      .model_digest = model_digest,
      .plan_digest = setup.hello.plan_digest(),
      .job_text = config::JobText(setup.job),
      .is_same_job = is_same_as(setup.job),
      .tag_of = TagOf(setup.checkpoint_secret),
      .layout_digest = protocol::LayoutDigest(setup.plan.data_lanes, setup.plan.buckets),
      .shards = static_cast<uint32_t>(setup.job.servers_size()),
      .takes_other_workers = config::MayChangeWorkers(setup.job),
      .other_layout = setup.plan.is_central ? checkpoint::OtherLayout::kForeign
                                            : checkpoint::OtherLayout::kTaken,
      .is_same_job_of_other_size = is_same_as(strict_job),
  };
}

uint64_t RandomIncarnation() {
  uint64_t incarnation = 0;
  while (incarnation == 0) randombytes_buf(&incarnation, sizeof incarnation);
  return incarnation;
}

}  // namespace tern::setup
