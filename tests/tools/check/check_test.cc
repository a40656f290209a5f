// Tests of `tern check` and `tern config`: their output, their exit codes, and the memory that a
// job needs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/text.h"
#include "setup/setup.h"
#include "tests/e2e/job_fixture.h"
#include "tests/limited_memory.h"
#include "tools/memory.h"

namespace tern::e2e {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Check, PrintsItsVerdictAndThePlan) {
  TestJob job;
  TestProgram& tern = job.StartTern({"check", job.job_file(), "--set", "exchange.bucket_kib=64"});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), AllOf(StartsWith("the job test is valid and can run here: ssgd, ternary, "
                                           "workers: 2, servers: 1\n"),
                                Not(HasSubstr("bucket_kib"))));
  EXPECT_THAT(tern.out(), AllOf(HasSubstr("parameters: 431080 in 8 tensors"),
                                ContainsRegex("conv2.weight +50 x 20 x 5 x 5 +25000 +ternary"),
                                HasSubstr("exchange: 5 buckets, 8 chunks"),
                                ContainsRegex("fc3.weight +400000 +1 +4 +0\n")));
  EXPECT_THAT(tern.out(),
              AllOf(ContainsRegex("fp32, each way +1724320 +1.7 MB +1.00"),
                    HasSubstr("algorithm: ssgd (backup_workers: 0), optimizer: momentum 0.9\n"),
                    HasSubstr("memory of a worker"), ContainsRegex("optimizer: momentum +1.7 MB"),
                    HasSubstr("memory of server 0"), HasSubstr("parked float sums"),
                    HasSubstr("training images: 240 of 1 x 28 x 28, 10 classes, 30 steps an epoch"),
                    HasSubstr("test images: 60")));
}

TEST(Check, SaysWhatAnAsynchronousAlgorithmHasByDefault) {
  TestJob job;
  TestProgram& tern = job.StartTern({"check", job.job_file(), "--set", "train.algorithm=dcasgd_a"});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), HasSubstr("algorithm: dcasgd_a (lambda: 2 rho: 0.95 mean_square_scope: "
                                    "worker), optimizer: sgd\n"));
}

TEST(Check, WarnsOfAWarmupAsLongAsTheJob) {
  TestJob job;
  TestProgram& tern = job.StartTern({"check", job.job_file(), "--set", "train.algorithm=odsgd"});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), AllOf(HasSubstr("algorithm: odsgd (warmup_steps: 200 "),
                                HasSubstr("warning: train.odsgd.warmup_steps is 200, and the job "
                                          "has 20 steps: every step is one of ssgd\n")));
  TestProgram& epochs = job.StartTern({"check", job.job_file(), "--set", "train.algorithm=odsgd",
                                       "--set", "train.steps=null", "--set", "train.epochs=2"});
  ASSERT_EQ(epochs.Wait(), 0) << epochs.err();
  EXPECT_THAT(epochs.out(),
              HasSubstr("\nwarning: train.odsgd.warmup_steps is 200, and the job has "
                        "2 epochs with 30 steps an epoch: every step is one of ssgd\n"));
}

TEST(Check, CountsTheWeightsThatWorkersPullForTheCompensation) {
  TestJob job;
  const auto text_with = [&job](const std::string& codec) {
    TestProgram& tern = job.StartTern({"check", job.job_file(), "--set", "train.algorithm=dcasgd_a",
                                       "--set", "exchange.codec=" + codec});
    EXPECT_EQ(tern.Wait(), 0) << tern.err();
    return tern.out();
  };
  EXPECT_THAT(text_with("ternary"), AllOf(ContainsRegex("down, at most +3448640 +3.4 MB +0.50"),
                                          HasSubstr("pull the weights a second time")));
  EXPECT_THAT(text_with("fp32"), AllOf(ContainsRegex("down, at most +1724320 +1.7 MB +1.00"),
                                       Not(HasSubstr("a second time"))));
}

// topk's limit is that of all elements, and it sends a thousandth of them.
TEST(Check, SaysHowLargeCodesAreThatHaveNoFixedSize) {
  TestJob job;
  TestProgram& topk = job.StartTern({"check", job.job_file(), "--set", "exchange.codec=topk"});
  ASSERT_EQ(topk.Wait(), 0) << topk.err();
  EXPECT_THAT(topk.out(), AllOf(ContainsRegex("down, at most +1[0-9]{6} +1.7 MB +1.00"),
                                ContainsRegex("up, about +[2-9][0-9]{3} "),
                                ContainsRegex("down, about +[2-9][0-9]{3} "),
                                HasSubstr("about: codes of Gaussian gradients")));
  TestProgram& fp32 = job.StartTern({"check", job.job_file(), "--set", "exchange.codec=fp32"});
  ASSERT_EQ(fp32.Wait(), 0) << fp32.err();
  EXPECT_THAT(fp32.out(), Not(HasSubstr("about: codes")));
}

TEST(Check, CountsTheBytesOfOneFragment) {
  TestJob job;
  TestProgram& tern = job.StartTern({"check", job.job_file(), "--set", "train.algorithm=pqasgd",
                                     "--set", "train.pqasgd.fragments=4"});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), AllOf(HasSubstr("exchange: 4 buckets"),
                                HasSubstr("payload of one worker in a round of one of 4 parts"),
                                ContainsRegex("fp32, each way +431080 +431.1 KB +1.00")));
}

TEST(Check, PrintsTheJobIfAskedTo) {
  TestJob job;
  TestProgram& tern = job.StartTern({"check", job.job_file(), "--verbose"});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), AllOf(StartsWith("the job test is valid"),
                                HasSubstr("the job with every key\nname: test\n"),
                                HasSubstr("  on_worker_loss: fail\n")));
}

TEST(Check, ShowsDecaysAndFactorsOfTheRateByTensor) {
  TestJob job;
  TestProgram& plain = job.StartTern({"check", job.job_file()});
  ASSERT_EQ(plain.Wait(), 0) << plain.err();
  EXPECT_THAT(plain.out(), Not(HasSubstr("learning rate")));
  TestProgram& tern = job.StartTern(
      {"check", job.job_file(), "--set",
       "train.schedule.rules=[{tensors: '*.bias', times: 64}, {tensors: fc3.*, times: 1, "
       "until_step: 9}]",
       "--set", "train.weight_decay={rate: 0.0005, rules: [{tensors: conv1.*, rate: 0.25}]}"});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), ContainsRegex("name +shape +count +codec +weight decay +learning rate"));
  EXPECT_THAT(tern.out(), ContainsRegex("conv1.bias +20 +20 +[a-z0-9]+ +0.25 +64 x"));
  EXPECT_THAT(tern.out(),
              ContainsRegex("fc3.weight +500 x 800 +400000 +[a-z0-9]+ +0.0005 +1 x to step 9"));
}

TEST(Check, WarnsOfMoreThreadsThanCpus) {
  TestJob job;
  TestProgram& tern = job.StartTern({"check", job.job_file(), "--set", "workers.threads=1024"});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), AllOf(StartsWith("the job test is valid and can run here"),
                                HasSubstr("warning: workers.threads is 1024, but this machine")));
}

TEST(Check, RefusesAPrecisionThatTheCpuHasNot) {
  TestJob job;
  TestProgram& tern = job.StartTern({"check", job.job_file(), "--set", "train.precision=fp16"});
  EXPECT_EQ(tern.Wait(), 78);
  EXPECT_THAT(tern.out(), StartsWith("the job test is valid, but cannot run here"));
  EXPECT_THAT(tern.err(), HasSubstr("worker 0: train.precision is fp16, which a CPU does not"));
}

// A machine that has CUDA, but no GPU, is refused by another sentence.
TEST(Check, SaysThatThereIsNoGpu) {
  TestJob job;
  TestProgram& tern = job.StartTern({"check", job.job_file(), "--set", "workers.device=cuda"});
  if (tern.Wait() == 0) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(tern.Wait(), 78);
  EXPECT_THAT(tern.out(), AllOf(StartsWith("the job test is valid, but cannot run here"),
                                HasSubstr("parameters: 431080")));
  EXPECT_THAT(tern.err(), HasSubstr("worker 0: workers.device is cuda, but "));
}

TEST(Config, PrintsAJobThatCanBeLoaded) {
  TestJob job({.yaml = "exchange: {rules: [{tensors: '*.bias', codec: fp32}]}\n"});
  TestProgram& tern = job.StartTern({"config", job.job_file(), "--set", "train.steps=21"});
  ASSERT_EQ(tern.Wait(), 0) << tern.err();
  const auto reparsed_job = config::ParseJob(tern.out(), "again.yaml", {}, setup::KnownNames());
  ASSERT_TRUE(reparsed_job.ok()) << reparsed_job.status().message();
  EXPECT_EQ(reparsed_job->exchange().rules(0).codec(), "fp32");
  EXPECT_EQ(reparsed_job->train().steps(), 21u);
  const auto job_with_set =
      config::LoadJob(job.job_file(), {"train.steps=21"}, setup::KnownNames());
  EXPECT_EQ(config::ToYaml(*job_with_set), tern.out());
}

TEST(Config, FailsIfItsOutputCannotBeWritten) {
  TestJob job;
  const std::string command = Cat(TestJob::BinaryPath("tern"), " config ", job.job_file()),
                    err_path = job.folder() + "/err";
  const int status = std::system(Cat(command, " > /dev/full 2> ", err_path).c_str());
  EXPECT_EQ(WEXITSTATUS(status), 74);
  EXPECT_THAT(ReadFile(err_path), HasSubstr("tern: stdout: not all output could be written (No "
                                            "space left on device)"));
}

TEST(Config, ReadsAJobFromStdin) {
  TestJob job;
  const std::string command = Cat("cat ", job.job_file(), " | ", TestJob::BinaryPath("tern"));
  EXPECT_EQ(std::system(Cat(command, " config - > ", job.folder(), "/complete.yaml").c_str()), 0);
  EXPECT_THAT(ReadFile(job.folder() + "/complete.yaml"), HasSubstr("\n  credit_kib: 16384\n"));
  EXPECT_EQ(std::system(Cat(command, " check - > /dev/null").c_str()), 0);
}

TEST(Check, NamesAllErrorsOfABadJob) {
  TestJob job({.yaml = "exchange: {codec: ternray}\nnonsense: 1\n"});
  TestProgram& tern = job.StartTern({"check", job.job_file(), "--set", "train.batch_total=0"});
  EXPECT_EQ(tern.Wait(), 78);
  EXPECT_THAT(tern.err(), AllOf(HasSubstr("did you mean ternary"), HasSubstr("nonsense"),
                                HasSubstr("train.batch_total")));
  EXPECT_EQ(tern.out(), "");
}

TEST(Check, ReportsErrorsOfFiles) {
  TestJob job;
  TestProgram& missing_file_run = job.StartTern({"check", job.folder() + "/none.yaml"});
  EXPECT_EQ(missing_file_run.Wait(), 65);
  EXPECT_THAT(missing_file_run.err(), HasSubstr("none.yaml"));
  TestProgram& missing_data_run =
      job.StartTern({"check", job.job_file(), "--set", "data.dir=/nowhere"});
  EXPECT_EQ(missing_data_run.Wait(), 65);
  EXPECT_THAT(missing_data_run.err(), HasSubstr("/nowhere"));
  EXPECT_THAT(missing_data_run.out(), HasSubstr("parameters: 431080"))
      << "the rest does not need the data";
  TestProgram& other_shape_run =
      job.StartTern({"check", job.job_file(), "--set", "model.input_height=32"});
  EXPECT_EQ(other_shape_run.Wait(), 65);
  EXPECT_THAT(other_shape_run.err(),
              HasSubstr("are 1 x 28 x 28 with 10 classes; the model takes 1 x 32 x 28 and 10"));
}

TEST(Check, SaysThatDaemonsOfThisMachineHaveOnePortOrNoSuchCpu) {
  TestJob job;
  for (const auto& [setting, word] :
       {std::pair{"metrics.port=23500", "23500"}, {"workers.cpus=1023", "workers.cpus 1023"}}) {
    TestProgram& tern = job.StartTern(
        {"check", job.job_file(), "--set", "servers.0.address=127.0.0.1:23500", "--set", setting});
    EXPECT_EQ(tern.Wait(), 78) << setting;
    EXPECT_THAT(tern.err(), HasSubstr(word));
    EXPECT_THAT(tern.out(), StartsWith("the job test is valid, but cannot run here"));
  }
}

TEST(Check, WarnsOfClassesWithoutImages) {
  TestJob job;
  TestProgram& tern = job.StartTern({"check", job.job_file(), "--set", "model.classes=12"});
  EXPECT_EQ(tern.Wait(), 0) << tern.err();
  EXPECT_THAT(tern.out(), HasSubstr("warning: the model has 12 classes, of which the last 2 have "
                                    "no image\n"));
}

TEST(Check, ReadsTheDataOfEveryRank) {
  TestJob job;
  const std::string other_dir = job.folder() + "/other";
  const auto check_with_data = [&job](const std::string& folder) -> TestProgram& {
    return job.StartTern({"check", job.job_file(), "--set",
                          Cat("workers.overrides=[{rank: 1, data_dir: ", folder, "}]")});
  };
  TestProgram& missing = check_with_data("/nowhere");
  EXPECT_EQ(missing.Wait(), 65);
  EXPECT_THAT(missing.out(), StartsWith("the job test is valid, but cannot run here"));
  EXPECT_THAT(missing.err(), AllOf(HasSubstr("worker 1: "), HasSubstr("/nowhere")));

  std::filesystem::copy(job.data_dir(), other_dir);
  TestProgram& same = check_with_data(other_dir);
  EXPECT_EQ(same.Wait(), 0) << same.err();
  EXPECT_THAT(same.out(), HasSubstr(Cat("worker 1 has the same in ", other_dir, "\n")));

  WriteIdxPair(other_dir, "t10k", 59, 2);
  TestProgram& smaller = check_with_data(other_dir);
  EXPECT_EQ(smaller.Wait(), 76);
  EXPECT_THAT(smaller.err(),
              HasSubstr(Cat(other_dir,
                            ": worker 1 has 240 training and 59 test images in 10 "
                            "classes, worker 0 has 240 training and 60 test images")));
}

TEST(Check, WrongArgumentsAreUsageErrors) {
  TestJob job;
  EXPECT_EQ(job.StartTern({"check"}).Wait(), 64);
  EXPECT_EQ(job.StartTern({"check", job.job_file(), "--restarts", "1"}).Wait(), 64);
}

uint64_t BytesOfItem(const std::vector<tools::MemoryItem>& items, const std::string& what) {
  for (const tools::MemoryItem& item : items) {
    if (item.name == what) return item.bytes;
  }
  ADD_FAILURE() << "no line " << what;
  return 0;
}

TEST(Memory, CountsTheArraysOfTheJob) {
  TestJob job({.servers = 2, .workers = 4});
  const auto ternary_setup = setup::MakeSetup(job.job_file(), {"evaluation.ema_decay=0.9"});
  ASSERT_TRUE(ternary_setup.ok()) << ternary_setup.status().message();
  const auto worker_items = tools::WorkerMemory(**ternary_setup);
  EXPECT_EQ(BytesOfItem(worker_items, "parameters"), 4u * 431080);
  EXPECT_EQ(BytesOfItem(worker_items, "optimizer: momentum"), 4u * 431080);
  EXPECT_EQ(BytesOfItem(worker_items, "moving average"), 4u * 431080);
  EXPECT_EQ(BytesOfItem(tools::ServerMemory(**ternary_setup, 0), "parked float sums"), 0u)
      << "codes are added as they arrive";
}

TEST(Memory, CountsTheArraysOfAnOuterOptimizer) {
  TestJob job;
  const auto setup = setup::MakeSetup(
      job.job_file(),
      {"train.algorithm=psgd", "exchange.codec=fp32", "train.psgd.outer.name=nesterov"});
  ASSERT_TRUE(setup.ok()) << setup.status().message();
  EXPECT_EQ(BytesOfItem(tools::WorkerMemory(**setup), "outer optimizer: momentum"), 4u * 431080);
}

TEST(Memory, CountsTheLargestBatch) {
  TestJob job({.workers = 2, .batch_total = 8});
  const auto items_of = [&job](const char* growth) {
    const auto setup = setup::MakeSetup(job.job_file(), {growth});
    EXPECT_TRUE(setup.ok()) << setup.status().message();
    return tools::WorkerMemory(**setup);
  };
  const uint64_t before = BytesOfItem(items_of("train.batch_growth=[]"), "activations, training");
  const auto grown = items_of(
      "train.batch_growth=[{at_epoch: 1, batch_total: 16}, {at_epoch: 2, batch_total: 64}]");
  EXPECT_EQ(BytesOfItem(grown, "activations, training"), 8 * before);
}

TEST(Memory, CountsWhatFrozenLayersAlgorithmsAndCodecsHold) {
  TestJob job;
  const auto items_of = [&job](const std::vector<std::string>& settings) {
    const auto setup = setup::MakeSetup(job.job_file(), settings);
    EXPECT_TRUE(setup.ok()) << setup.status().message();
    return tools::WorkerMemory(**setup);
  };
  const auto frozen = items_of({"train.freeze=['conv*']"});
  EXPECT_EQ(BytesOfItem(frozen, "parameters") + BytesOfItem(frozen, "frozen parameters") / 2,
            4u * 431080);
  EXPECT_EQ(BytesOfItem(items_of({"train.algorithm=easgd", "exchange.codec=fp32"}), "own weights"),
            4u * 431080);
  EXPECT_EQ(BytesOfItem(items_of({"exchange.codec=onebit"}), "codec memory"), 4u * 431080);
}

// This model has 1.6 billion parameters.
TEST(Memory, IsCountedWithoutBeingAllocated) {
  TestJob job;
  TERN_EXPECT_WITHIN_MEMORY(64 << 20, [&job] {
    const auto setup =
        setup::MakeSetup(job.job_file(), {"model.input_height=65536", "evaluation.batch=1"});
    return setup.ok() && BytesOfItem(tools::WorkerMemory(**setup), "optimizer: momentum") ==
                             4 * (*setup)->table.total;
  }());
}

TEST(Memory, FloatSumsParkAtMostOneRoundPerWorker) {
  TestJob job({.servers = 2, .workers = 4});
  const auto fp32_setup =
      setup::MakeSetup(job.job_file(), {"exchange.codec=fp32", "exchange.chunk_kib=256"});
  ASSERT_TRUE(fp32_setup.ok()) << fp32_setup.status().message();
  uint64_t parked_bytes = 0, transit_bytes = 0;
  for (uint32_t shard = 0; shard < 2; ++shard) {
    parked_bytes += BytesOfItem(tools::ServerMemory(**fp32_setup, shard), "parked float sums");
    transit_bytes += BytesOfItem(tools::ServerMemory(**fp32_setup, shard), "frames in transit");
  }
  EXPECT_EQ(parked_bytes, 4u * 4 * 431080);
  EXPECT_EQ(transit_bytes, 2u * 4 * (16384 << 10));
}

}  // namespace
}  // namespace tern::e2e
