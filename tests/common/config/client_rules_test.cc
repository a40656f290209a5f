// Tests of jobs whose workers are programs of the user's (train.compute: client and module).
#include <gmock/gmock.h>

#include <string>

#include "common/base/text.h"
#include "tests/common/config/job_text.h"

namespace tern::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kClientJob =
    "servers:\n"
    "  - address: 127.0.0.1:7500\n"
    "workers: {count: 2}\n"
    "train: {compute: client}\n";

TEST(ClientRules, AJobNeedsNothingButServersAndWorkers) {
  EXPECT_THAT(FaultsOf(kClientJob), IsEmpty());
  EXPECT_THAT(FaultsOf(std::string(kClientJob) + "exchange: {codec: ternary}\n"), IsEmpty());
  EXPECT_THAT(FaultsOf(kClientJob, {"train.tensors=tensors.json"}), IsEmpty());
  EXPECT_THAT(FaultsOf(kClientJob, {"checkpoints.every_steps=5"}), IsEmpty());
  EXPECT_THAT(FaultsOf(kClientJob, {"train.ssgd={backup_workers: 1}"}), IsEmpty());
}

TEST(ClientRules, KeysThatMeanNothingAreRefusedByName) {
  for (const char* override : {"model.name=lenet",
                               "data.dir=/data",
                               "evaluation.every_steps=5",
                               "train.batch_total=64",
                               "train.steps=5",
                               "train.epochs=5",
                               "train.optimizer.name=sgd",
                               "train.schedule.learning_rate=0.1",
                               "train.weight_decay.rate=0.1",
                               "train.clip_norm=1",
                               "train.precision=bf16",
                               "train.freeze=[conv1]",
                               "train.stop_when.no_better_evaluations=5",
                               "train.max_staleness=3",
                               "train.ssgd.lookahead.decay=0.5",
                               "workers.threads=3",
                               "workers.device=cuda",
                               "workers.cpus=0",
                               "workers.overrides=[{rank: 0, threads: 2}]",
                               "metrics.tensorboard=true",
                               "faults.compare_every_steps=3"}) {
    EXPECT_THAT(FaultsOf(kClientJob, {override}),
                ElementsAre(HasSubstr("saw this key with compute: client; allowed: nothing")))
        << override;
  }
  EXPECT_THAT(FaultsOf(kClientJob, {"workers.overrides=null"}), IsEmpty());  // as tern forecast has
}

TEST(ClientRules, TheClientsHoldTheWeights) {
  EXPECT_THAT(FaultsOf(kClientJob, {"train.algorithm=psgd", "exchange.codec=fp32"}),
              ElementsAre(HasSubstr("train.algorithm: saw psgd; allowed: with compute: client, an "
                                    "algorithm that only takes the mean")));
  EXPECT_THAT(FaultsOf(kClientJob, {"train.parameters=central", "exchange.codec=fp32"}),
              ElementsAre(HasSubstr("train.parameters: saw central; allowed: localized")));
  for (const char* answer : {"fail", "wait", "shrink"})
    EXPECT_THAT(FaultsOf(kClientJob, {Cat("faults.on_worker_loss=", answer)}), IsEmpty());
}

constexpr const char* kModuleJob =
    "servers:\n"
    "  - address: 127.0.0.1:7500\n"
    "workers: {count: 2}\n"
    "train: {compute: module, batch_total: 64, steps: 100}\n";

TEST(ModuleRules, AJobHasABatchAndALengthAndWhatElseATrainingHas) {
  EXPECT_THAT(FaultsOf(kModuleJob), IsEmpty());
  EXPECT_THAT(FaultsOf(kModuleJob, {"train.tensors=tensors.json"}), IsEmpty());
  EXPECT_THAT(
      FaultsOf(kModuleJob, {"train.optimizer.name=adam", "checkpoints.every_steps=5",
                            "evaluation.ema_decay=0.9", "faults.on_worker_loss=shrink",
                            "faults.compare_every_steps=3", "workers.send_mbit=5",
                            "evaluation.every_steps=5", "train.stop_when.no_better_evaluations=5"}),
      IsEmpty());
  EXPECT_THAT(FaultsOf(kModuleJob, {"train.steps=null"}),
              ElementsAre(HasSubstr("train: saw neither steps nor epochs")));
  EXPECT_THAT(FaultsOf(kModuleJob, {"train.batch_total=63"}),
              ElementsAre(HasSubstr("train.batch_total: saw 63; allowed: a multiple")));
}

TEST(ModuleRules, KeysThatMeanNothingAreRefusedByName) {
  for (const char* override :
       {"model.name=lenet", "model.classes=3", "model.new_tensors=[fc]", "data.dir=/data",
        "evaluation.batch=5", "evaluation.confusion=true", "train.precision=bf16",
        "train.freeze=[conv1]", "train.batch_growth=[{at_epoch: 1, batch_total: 128}]",
        "train.odsgd={warmup_epochs: 1}", "workers.threads=3", "workers.device=cuda",
        "workers.cpus=0", "workers.overrides=[{rank: 0, threads: 2}]",
        "metrics.tensorboard=true"}) {
    EXPECT_THAT(FaultsOf(kModuleJob, {"train.algorithm=odsgd", "exchange.codec=fp32", override}),
                ElementsAre(HasSubstr("saw this key with compute: module; allowed: nothing")))
        << override;
  }
}

TEST(ModuleRules, ServersThatHoldTheWeightsNeedAFileOfThem) {
  EXPECT_THAT(FaultsOf(kModuleJob, {"train.algorithm=asgd", "exchange.codec=fp32"}),
              ElementsAre(HasSubstr("model.weights: saw nothing; allowed: a file with the first "
                                    "weights, because with this algorithm")));
  EXPECT_THAT(FaultsOf(kModuleJob, {"train.algorithm=asgd", "exchange.codec=fp32",
                                    "model.weights=first.safetensors"}),
              IsEmpty());
}

TEST(ClientRules, OtherJobsHaveNoTable) {
  EXPECT_THAT(FaultsOf(SmallJob(), {"train.tensors=tensors.json"}),
              ElementsAre(HasSubstr("train.tensors: saw tensors.json; allowed: nothing")));
  EXPECT_THAT(FaultsOf(SmallJob(), {"train.batch_total=null"}),
              ElementsAre(HasSubstr("train.batch_total: saw nothing")));
}

}  // namespace
}  // namespace tern::config
