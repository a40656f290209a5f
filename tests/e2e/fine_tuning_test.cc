// Jobs that start from the weights of another job (model.weights, model.new_tensors), and train
// only some of the parameters (train.freeze), in real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/algorithm/algorithms.h"
#include "common/tensors/safetensors.h"
#include "tests/e2e/checkpoint_job.h"

namespace tern::e2e {
namespace {

using testing::HasSubstr;

// 8 x 25 + 8, 8 + 8, 10 x 1152 + 10 parameters, and 8 + 8 statistics.
constexpr char kNetWithBatchNorm[] = R"({net: {layers: [
    {name: conv, conv: {outputs: 8, kernel: 5, stride: 2}},
    {name: norm, batch_norm: {}},
    {name: active, relu: {}},
    {name: scores, dense: {outputs: 10}},
    {name: loss, softmax_loss: {}}]}})";

// A learning rate so small that only parameters that are 0 change.
constexpr char kNoLearning[] = "train.schedule.learning_rate=1e-30";

// A job that has ended, whose weights others start from.
class FineTuning : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    first_job_ = new TestJob({.steps = 12, .model = kNetWithBatchNorm});
    first_job_->StartAll();
    first_job_->ExpectAllEnd(0);
  }
  static void TearDownTestSuite() {
    delete first_job_;
    first_job_ = nullptr;
  }
  static std::string FirstWeightsFile() {
    return first_job_->output_dir() + "/weights.safetensors";
  }

  static TestJob* first_job_;
};
TestJob* FineTuning::first_job_ = nullptr;

std::vector<float> TensorOf(const std::string& path, const std::string& name) {
  const auto file = tensors::ReadSafetensors(path);
  EXPECT_TRUE(file.ok()) << file.status().message();
  for (const tensors::Tensor& tensor : file->tensors) {
    if (tensor.name == name) return tensor.values;
  }
  ADD_FAILURE() << path << " has no " << name;
  return {};
}

float MaxDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST_F(FineTuning, EveryAlgorithmStartsFromTheWeights) {
  for (const std::string& name : algorithm::AlgorithmNames()) {
    pb::Train train;
    train.set_algorithm(name);
    for (const int place : algorithm::TraitsOf(train)->holding()) {
      const std::string holding = pb::Train::Parameters_Name(place);
      SCOPED_TRACE(name + " " + holding);
      TestJob job({.servers = 2, .steps = 2, .model = kNetWithBatchNorm});
      job.StartAll(SetArguments({"model.weights=" + FirstWeightsFile(), "train.algorithm=" + name,
                                 "train.parameters=" + holding, "exchange.codec=fp32",
                                 "exchange.scaler=per_worker", "train.optimizer.name=sgd",
                                 "train.weight_decay.rate=0", kNoLearning}));
      job.ExpectAllEnd(0);
      const std::string own_file = job.output_dir() + "/weights.safetensors";
      for (const char* tensor : {"conv.weight", "conv.bias", "norm.weight", "scores.weight"})
        EXPECT_LT(MaxDifference(TensorOf(own_file, tensor), TensorOf(FirstWeightsFile(), tensor)),
                  1e-6f)
            << tensor;
      // The statistics go on from those of the file: a new net's are 0 and 1, and one step moves
      // them by a tenth.
      EXPECT_LT(MaxDifference(TensorOf(own_file, "norm.running_mean"),
                              TensorOf(FirstWeightsFile(), "norm.running_mean")),
                0.4f * MaxDifference(std::vector<float>(8),
                                     TensorOf(FirstWeightsFile(), "norm.running_mean")));
    }
  }
}

TEST_F(FineTuning, FrozenTensorsStayAndAreNotSent) {
  for (const std::string holding : {"localized", "central"}) {
    SCOPED_TRACE(holding);
    uint64_t pushed_bytes[2] = {};
    for (const bool freezes : {false, true}) {
      TestJob job({.workers = 3, .steps = 10, .batch_total = 9, .model = kNetWithBatchNorm});
      std::vector<std::string> settings = {"model.weights=" + FirstWeightsFile(),
                                           "train.parameters=" + holding,
                                           "exchange.codec=fp32",
                                           "exchange.scaler=per_worker",
                                           "train.weight_decay.rate=0.1",
                                           "evaluation.ema_decay=0.5"};
      if (freezes) settings.push_back("train.freeze=[\"conv.*\", \"norm.*\"]");
      job.StartAll(SetArguments(settings));
      job.ExpectAllEnd(0);
      pushed_bytes[freezes] = job.Output("worker.1.json")["traffic"]["push"]["bytes_out"];
      const std::string log = job.Log("worker", 0);
      EXPECT_EQ(log.find("11530 parameters that are trained and 224 that are frozen") !=
                    std::string::npos,
                freezes);
      for (const char* file : {"/weights.safetensors", "/weights_average.safetensors"}) {
        const auto is_same = [&](const char* tensor) {
          return TensorOf(job.output_dir() + file, tensor) == TensorOf(FirstWeightsFile(), tensor);
        };
        for (const char* tensor : {"conv.weight", "conv.bias", "norm.weight", "norm.bias",
                                   "norm.running_mean", "norm.running_var"})
          EXPECT_EQ(is_same(tensor), freezes) << tensor << " of " << file;
        for (const char* tensor : {"scores.weight", "scores.bias"})
          EXPECT_FALSE(is_same(tensor)) << tensor << " of " << file;
      }
    }
    // Ten pushes without 224 floats. The frames of the pushes may be shorter by some bytes, too.
    EXPECT_GE(pushed_bytes[0] - pushed_bytes[1], 10 * 224 * sizeof(float));
    EXPECT_LE(pushed_bytes[0] - pushed_bytes[1], 10 * (224 * sizeof(float) + 16));
  }
}

TEST_F(FineTuning, AFileOfTheFrozenTensorsTooIsEvaluatedAlone) {
  TestJob job({.steps = 4, .model = kNetWithBatchNorm});
  job.StartAll(SetArguments({"model.weights=" + FirstWeightsFile(), "train.freeze=[\"conv.*\"]"}));
  job.ExpectAllEnd(0);
  TestProgram& evaluation =
      job.Start("evaluate", TestJob::BinaryPath("tern_worker"),
                {"--job", job.job_file(), "--evaluate", job.output_dir() + "/weights.safetensors",
                 "--set", "train.freeze=[\"conv.*\"]", "--set", "model.weights=nowhere"});
  ASSERT_EQ(evaluation.Wait(), 0) << evaluation.err();
  char accuracy[32];
  std::snprintf(accuracy, sizeof accuracy, "top-1 %.4f,",
                job.Output("server.0.json")["accuracy"].get<double>());
  EXPECT_THAT(evaluation.out(), HasSubstr(accuracy));
}

TEST_F(FineTuning, KilledJobsEndWithTheSameBytes) {
  for (const std::string holding : {"localized", "central"}) {
    SCOPED_TRACE(holding);
    JobOptions options = OptionsFor();
    options.model = kNetWithBatchNorm;
    const std::vector<std::string> arguments = SetArguments(
        {"model.weights=" + FirstWeightsFile(), "train.freeze=[\"conv.*\", \"norm.*\"]",
         "train.parameters=" + holding, "exchange.scaler=per_worker"});
    const std::string weights = UndisturbedWeights(options, arguments);
    TestJob job(options);
    RunAndKillAt(job, options, 20, arguments);
    ExpectResumes(job, options, weights, arguments);
  }
}

// A resume goes on with the checkpoint's weights; the file of the first weights has no effect, even
// if it is another by then, unless it has frozen tensors, which checkpoints do not have.
TEST_F(FineTuning, AResumeGoesBeforeTheWeights) {
  JobOptions options = OptionsFor();
  options.model = kNetWithBatchNorm;
  const std::vector<std::string> arguments =
      SetArguments({"model.weights=" + FirstWeightsFile(), "exchange.codec=fp32"});
  const std::string weights = UndisturbedWeights(options, arguments);
  TestJob job(options);
  RunAndKillAt(job, options, 20, arguments);
  ExpectResumes(job, options, weights, SetArguments({"exchange.codec=fp32"}));
}

TEST_F(FineTuning, AReturningWorkerHasTheFrozenTensors) {
  JobOptions options = {.steps = 8000, .model = kNetWithBatchNorm};
  options.yaml = "faults: {on_worker_loss: wait}\n";
  const std::vector<std::string> arguments = SetArguments(
      {"model.weights=" + FirstWeightsFile(), "train.freeze=[\"conv.*\"]", "exchange.codec=fp32"});
  TestJob job(options);
  job.StartAll(arguments);
  ASSERT_TRUE(job.WaitForRound(20));
  TestProgram& lost = job.worker(0);
  lost.Signal(SIGKILL);
  lost.Wait();
  job.StartWorker(0, arguments);
  job.ExpectAllEnd(0);
  const std::string own_file = job.output_dir() + "/weights.safetensors";
  EXPECT_EQ(TensorOf(own_file, "conv.weight"), TensorOf(FirstWeightsFile(), "conv.weight"));
}

TEST_F(FineTuning, AWorkerWithOtherWeightsIsRefused) {
  TestJob other({.steps = 3, .model = kNetWithBatchNorm});
  other.StartAll();
  other.ExpectAllEnd(0);
  TestJob job({.steps = 1'000'000, .model = kNetWithBatchNorm});
  const std::string same = "model.weights=" + FirstWeightsFile();
  job.StartServer(0, {"--set", same});
  TestProgram& other_file =
      job.StartWorker(1, {"--set", "model.weights=" + other.output_dir() + "/weights.safetensors"});
  EXPECT_EQ(other_file.Wait(), 76);
  EXPECT_THAT(other_file.err(), HasSubstr("the weights in model.weights differ from the server's"));
  TestProgram& no_file = job.StartWorker(1);
  EXPECT_EQ(no_file.Wait(), 76);
  EXPECT_THAT(no_file.err(), HasSubstr("the peer has no model.weights, the server has"));
  EXPECT_TRUE(job.WaitForLog("server", 0,
                             "the weights in model.weights differ from the server's: "
                             "the peer's digest is "));
}

TEST_F(FineTuning, ANewHeadHasToBeNamed) {
  std::string model = kNetWithBatchNorm;
  model.replace(model.find("outputs: 10"), 11, "outputs: 12");
  model.replace(model.find("{net: {"), 7, "{net: {classes: 12, ");
  TestJob job({.steps = 5, .model = model});
  const std::string weights = "model.weights=" + FirstWeightsFile();
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"check", job.job_file(), "--set", weights},
        {"run", job.job_file(), "--set", weights}}) {
    TestProgram& tern = job.StartTern(arguments);
    EXPECT_EQ(tern.Wait(), 65);
    EXPECT_THAT(tern.err(),
                HasSubstr("weights.safetensors: the tensor \"scores.weight\" has shape [10, 1152], "
                          "the model's has [12, 1152]; if it is to begin anew, write "
                          "model.new_tensors: [\"scores.*\"]"));
  }
  job.StartAll(SetArguments({"model.weights=" + FirstWeightsFile(),
                             "model.new_tensors=[\"scores.*\"]", "train.freeze=[\"conv.*\"]"}));
  job.ExpectAllEnd(0);
  EXPECT_EQ(TensorOf(job.output_dir() + "/weights.safetensors", "conv.weight"),
            TensorOf(FirstWeightsFile(), "conv.weight"));
}

TEST_F(FineTuning, SaysWhatIsWrongInTheJob) {
  TestJob job({.steps = 5, .model = kNetWithBatchNorm});
  const auto error_of = [&](const std::vector<std::string>& settings, int code) {
    std::vector<std::string> arguments = SetArguments(settings);
    arguments.insert(arguments.begin(), {"check", job.job_file()});
    TestProgram& check = job.StartTern(arguments);
    EXPECT_EQ(check.Wait(), code);
    return check.err();
  };
  EXPECT_THAT(error_of({"train.freeze=[\"*\"]"}, 78),
              HasSubstr("all tensors of the model are frozen"));
  EXPECT_THAT(error_of({"train.freeze=[\"cnv*\"]"}, 78),
              HasSubstr("train.freeze: \"cnv*\" is the name of no tensor of the model"));
  EXPECT_THAT(error_of({"model.new_tensors=[\"scores.*\"]"}, 78),
              HasSubstr("model.new_tensors: saw names of tensors without model.weights"));
  EXPECT_THAT(error_of({"model.weights=nowhere.safetensors"}, 65),
              HasSubstr("model.weights: cannot open nowhere.safetensors: No such file"));
}

}  // namespace
}  // namespace tern::e2e
