// Tests of the event files that workers write for TensorBoard, and of the CPUs on which workers
// compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/base/cpus.h"
#include "tests/e2e/job_fixture.h"
#include "tests/worker/tensorboard/read_events.h"

namespace tern::e2e {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::SizeIs;

constexpr char kSmallNet[] = R"({net: {layers: [
    {name: conv, conv: {outputs: 4, kernel: 5, stride: 2}},
    {name: active, relu: {}},
    {name: scores, dense: {outputs: 10}},
    {name: loss, softmax_loss: {}}]}})";

tensorboard::ValuesByTag EventValuesOf(const TestJob& job, uint32_t rank) {
  const auto files =
      tensorboard::EventFiles(job.output_dir() + "/events/worker." + std::to_string(rank));
  EXPECT_EQ(files.size(), 1u);
  return files.empty() ? tensorboard::ValuesByTag()
                       : tensorboard::ValuesOf(tensorboard::ReadEvents(files.front()));
}

std::vector<int64_t> StepsOf(const tensorboard::ValuesByTag& events, const std::string& tag) {
  std::vector<int64_t> steps;
  const auto values = events.find(tag);
  if (values == events.end()) return steps;
  for (const auto& [step, value] : values->second) steps.push_back(step);
  return steps;
}

// The lower and the upper limits of the histogram's non-empty buckets.
std::vector<std::pair<double, double>> NonEmptyBuckets(const pb::HistogramProto& histogram) {
  std::vector<std::pair<double, double>> limits;
  for (int i = 0; i < histogram.bucket_size(); ++i) {
    if (histogram.bucket(i) > 0)
      limits.emplace_back(i == 0 ? histogram.min() : histogram.bucket_limit(i - 1),
                          histogram.bucket_limit(i));
  }
  return limits;
}

TEST(Events, ShowLossesRatesEvaluationsAndTernaryGradients) {
  TestJob job({.steps = 12,
               .model = kSmallNet,
               .yaml = "metrics: {tensorboard: true, histograms_every_steps: 4}\n"
                       "evaluation: {every_steps: 6}\n"
                       "exchange: {rules: [{tensors: scores.bias, codec: fp32}]}\n"});
  job.StartAll();
  job.ExpectAllEnd(0);
  for (const uint32_t rank : {0u, 1u}) {
    SCOPED_TRACE(rank);
    const tensorboard::ValuesByTag events = EventValuesOf(job, rank);
    ASSERT_THAT(StepsOf(events, "train/loss"), SizeIs(12));
    EXPECT_THAT(StepsOf(events, "learning_rate"), SizeIs(12));
    EXPECT_NEAR(events.at("learning_rate").at(12).simple_value(), 0.01, 1e-6);
    for (const char* tag : {"samples_per_s", "bytes_up_per_step", "bytes_down_per_step"}) {
      ASSERT_THAT(StepsOf(events, tag), Contains(12)) << tag;
      EXPECT_GT(events.at(tag).at(12).simple_value(), 0) << tag;
    }
    // The net has 4 x 25 + 4 + 576 x 10 + 10 = 5874 parameters. Their ternary codes must take less
    // than a quarter of the bytes of floats.
    EXPECT_LT(events.at("bytes_up_per_step").at(12).simple_value(), 5874 * 4 / 4);
    for (const char* tag : {"test/accuracy", "test/top5", "test/loss"}) {
      if (rank == 0) {
        EXPECT_THAT(StepsOf(events, tag), ElementsAre(6, 12)) << tag;
      } else {
        EXPECT_EQ(events.count(tag), 0u) << tag;
      }
    }
    for (const char* name : {"conv.weight", "conv.bias", "scores.weight", "scores.bias"}) {
      SCOPED_TRACE(name);
      const std::string gradient_tag = std::string("gradient/") + name,
                        coded_tag = std::string("coded/") + name;
      ASSERT_THAT(StepsOf(events, gradient_tag), ElementsAre(4, 8, 12));
      ASSERT_THAT(StepsOf(events, coded_tag), ElementsAre(4, 8, 12));
      const pb::HistogramProto& gradient = events.at(gradient_tag).at(8).histo();
      const pb::HistogramProto& coded_gradient = events.at(coded_tag).at(8).histo();
      EXPECT_EQ(coded_gradient.num(), gradient.num());
      if (std::string(name) == "scores.bias") {
        EXPECT_EQ(coded_gradient.SerializeAsString(), gradient.SerializeAsString());
      }
    }
    // As in figure 2 of TernGrad, the gradients are bell-shaped before coding; the codes have only
    // the values 0 and +-scaler.
    const pb::HistogramProto& gradient = events.at("gradient/scores.weight").at(8).histo();
    const pb::HistogramProto& coded_gradient = events.at("coded/scores.weight").at(8).histo();
    EXPECT_EQ(coded_gradient.num(), 5760);
    EXPECT_GT(NonEmptyBuckets(gradient).size(), 20u);
    ASSERT_THAT(NonEmptyBuckets(coded_gradient), SizeIs(3));
    EXPECT_EQ(coded_gradient.min(), -coded_gradient.max());
    EXPECT_EQ(NonEmptyBuckets(coded_gradient)[1], (std::pair{0., 1e-12}));
  }
}

TEST(Events, OfAKilledWorkerCanBeReadAndItsSuccessorWritesAnotherFile) {
  TestJob job({.steps = 100000,
               .model = kSmallNet,
               .yaml = "metrics: {tensorboard: true}\nfaults: {on_worker_loss: wait}\n"});
  job.StartAll();
  const std::string folder = job.output_dir() + "/events/worker.1";
  const auto count_losses_in = [&](size_t file_index) {
    const auto files = tensorboard::EventFiles(folder);
    if (files.size() <= file_index) return size_t{0};
    const auto events = tensorboard::ValuesOf(tensorboard::ReadEvents(files[file_index]));
    return events.count("train/loss") == 0 ? 0 : events.at("train/loss").size();
  };
  ASSERT_TRUE(WaitUntil([&] { return count_losses_in(0) > 0; }));
  job.worker(1).Signal(SIGKILL);
  EXPECT_EQ(job.worker(1).Wait(), 128 + SIGKILL);
  EXPECT_GT(count_losses_in(0), 0u);
  job.StartWorker(1);
  EXPECT_TRUE(WaitUntil([&] { return count_losses_in(1) > 0; }));
  job.server(0).Signal(SIGTERM);
  job.ExpectAllEnd(143);
}

TEST(Events, ThatCannotBeWrittenDoNotStopTraining) {
  TestJob job({.steps = 5, .model = kSmallNet, .yaml = "metrics: {tensorboard: true}\n"});
  std::filesystem::create_directories(job.output_dir());
  std::ofstream(job.output_dir() + "/events") << "a file where the folder should be";
  job.StartAll();
  job.ExpectAllEnd(0);
  EXPECT_THAT(job.Log("worker", 0), HasSubstr("/events/worker.0: "));
  EXPECT_THAT(job.Log("worker", 0), HasSubstr("training goes on without TensorBoard's events"));
}

// The name of each thread of a process, with the CPUs that it may run on.
std::multimap<std::string, std::string> CpusByThread(pid_t pid) {
  std::multimap<std::string, std::string> cpus_by_thread;
  std::error_code ignored_error;
  for (const auto& task : std::filesystem::directory_iterator(
           "/proc/" + std::to_string(pid) + "/task", ignored_error)) {
    std::ifstream status_file(task.path() / "status");
    std::string line, name;
    while (std::getline(status_file, line)) {
      const size_t tab = line.find('\t');
      if (line.rfind("Name:", 0) == 0) name = line.substr(tab + 1);
      if (line.rfind("Cpus_allowed_list:", 0) == 0)
        cpus_by_thread.emplace(name, line.substr(tab + 1));
    }
  }
  return cpus_by_thread;
}

TEST(Cpus, BindOnlyTheThreadsThatCompute) {
  const auto allowed_cpus = CpusOfThisThread();
  ASSERT_TRUE(allowed_cpus.ok()) << allowed_cpus.status().message();
  const std::string last_cpu = std::to_string(allowed_cpus->back());
  TestJob job({.workers = 1, .steps = 100000});
  job.StartAll({"--set", "workers.threads=3", "--set", "workers.cpus=" + last_cpu});
  ASSERT_TRUE(job.WaitForRound(3));
  const auto cpus_by_thread = CpusByThread(job.worker(0).pid());
  const auto [begin, end] =
      cpus_by_thread.equal_range("tern_worker");  // OpenMP's threads have the main thread's name
  EXPECT_GE(std::distance(begin, end), 3);
  for (auto thread = begin; thread != end; ++thread) EXPECT_EQ(thread->second, last_cpu);
  for (const char* name : {"net", "coder", "data 0"}) {
    ASSERT_THAT(cpus_by_thread, Contains(Key(name)));
    EXPECT_EQ(cpus_by_thread.find(name)->second, CpusText(*allowed_cpus)) << name;
  }
  for (const auto& [name, allowed] : cpus_by_thread) {
    EXPECT_TRUE(name == "tern_worker" || allowed == CpusText(*allowed_cpus))
        << name << ": " << allowed;
  }
  job.server(0).Signal(SIGTERM);
  job.ExpectAllEnd(143);
}

TEST(Cpus, ThatTheMachineLacksAreRefusedWithAListOfItsCpus) {
  const auto allowed_cpus = CpusOfThisThread();
  ASSERT_TRUE(allowed_cpus.ok()) << allowed_cpus.status().message();
  ASSERT_LT(allowed_cpus->back(), kMaxCpu);
  TestJob job({.workers = 1});
  TestProgram& worker = job.StartWorker(0, {"--set", "workers.cpus=0-1023"});
  EXPECT_EQ(worker.Wait(), 78);
  EXPECT_THAT(worker.err(), HasSubstr("workers.cpus (\"0-1023\") of worker 0: saw CPU "));
  EXPECT_THAT(worker.err(), HasSubstr("allowed here: " + CpusText(*allowed_cpus)));
}

}  // namespace
}  // namespace tern::e2e
