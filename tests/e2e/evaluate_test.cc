// Tests of the scores and confusion matrices of a job's weights: by tern_worker --evaluate, and at
// the job's end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "common/tensors/safetensors.h"
#include "tests/e2e/job_fixture.h"

namespace tern::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kNetWithBatchNorm[] = R"({net: {layers: [
    {name: conv, conv: {outputs: 8, kernel: 5, stride: 2, bias: false}},
    {name: norm, batch_norm: {}},
    {name: active, relu: {}},
    {name: scores, dense: {outputs: 10}},
    {name: loss, softmax_loss: {}}]}})";

// Runs tern_worker --evaluate, without a server.
TestProgram& StartEvaluation(TestJob* job, const std::string& file,
                             const std::vector<std::string>& extra_arguments = {}) {
  std::vector<std::string> arguments = {"--job", job->job_file(), "--evaluate", file};
  arguments.insert(arguments.end(), extra_arguments.begin(), extra_arguments.end());
  return job->Start("evaluate", TestJob::BinaryPath("tern_worker"), arguments);
}

std::vector<std::vector<int>> RowsOfCsv(const std::string& csv) {
  std::istringstream lines(csv);
  std::vector<std::vector<int>> rows;
  std::string line;
  std::getline(lines, line);  // the header
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    std::string cell;
    rows.emplace_back();
    while (std::getline(cells, cell, ',')) rows.back().push_back(std::stoi(cell));
  }
  return rows;
}

// The values of evaluation.views.
class Views : public testing::TestWithParam<const char*> {};

TEST_P(Views, AloneGiveTheWorkersCommonScore) {
  TestJob job({.workers = 3,
               .steps = 12,
               .batch_total = 9,
               .test_images = 61,
               .model = kNetWithBatchNorm,
               .yaml = std::string("evaluation: {confusion: true, batch: 7, views: ") + GetParam() +
                       "}\n"});
  job.StartAll();
  job.ExpectAllEnd(0);
  const std::string confusion_of_job = job.OutputBytes("confusion.csv");
  EXPECT_THAT(confusion_of_job, HasSubstr("true,0,1,2,3,4,5,6,7,8,9\n0,"));
  int samples = 0, correct = 0;
  const auto rows = RowsOfCsv(confusion_of_job);
  ASSERT_EQ(rows.size(), 10u);
  for (size_t row = 0; row < 10; ++row) {
    ASSERT_EQ(rows[row].size(), 11u);
    EXPECT_EQ(rows[row][0], static_cast<int>(row));
    for (size_t c = 1; c <= 10; ++c) samples += rows[row][c];
    correct += rows[row][row + 1];
  }
  EXPECT_EQ(samples, 61);
  char accuracy[32];
  std::snprintf(accuracy, sizeof accuracy, "top-1 %.4f,", correct / 61.0);

  std::ofstream(job.output_dir() + "/confusion.csv") << "the training's";
  TestProgram& evaluation = StartEvaluation(&job, job.output_dir() + "/weights.safetensors");
  ASSERT_EQ(evaluation.Wait(), 0) << evaluation.err();
  EXPECT_THAT(evaluation.out(), AllOf(HasSubstr(accuracy), HasSubstr(" on 61 test images\n")));
  EXPECT_EQ(job.OutputBytes("evaluated_confusion.csv"), confusion_of_job);
  EXPECT_EQ(job.OutputBytes("confusion.csv"), "the training's");
  // The job's log and the separate evaluation have the same loss, up to rounding: both use the mean
  // of the workers' batch norm statistics, but their batches differ.
  const std::string log = job.Log("worker", 0);
  const size_t loss_begin = evaluation.out().find("loss ") + 5;
  const std::string loss = evaluation.out().substr(loss_begin, 5);
  EXPECT_THAT(log, HasSubstr("test loss " + loss));
}

INSTANTIATE_TEST_SUITE_P(OfEvaluation, Views, testing::Values("one", "mirrored", "shifted"));

TEST(Evaluate, WithoutTheKeyWritesNoConfusionMatrix) {
  TestJob job({.steps = 4});
  job.StartAll();
  job.ExpectAllEnd(0);
  TestProgram& evaluation = StartEvaluation(&job, job.output_dir() + "/weights.safetensors");
  ASSERT_EQ(evaluation.Wait(), 0) << evaluation.err();
  EXPECT_THAT(evaluation.out(), HasSubstr("top-5 "));
  EXPECT_EQ(job.OutputBytes("confusion.csv"), "");
  EXPECT_EQ(job.OutputBytes("evaluated_confusion.csv"), "");
}

TEST(Evaluate, RefusesWeightsThatAreNotTheModels) {
  TestJob job({.steps = 2});
  job.StartAll();
  job.ExpectAllEnd(0);
  const std::string weights = job.output_dir() + "/weights.safetensors";
  TestProgram& evaluation_without_file = StartEvaluation(&job, job.folder() + "/nowhere");
  EXPECT_EQ(evaluation_without_file.Wait(), 65);
  EXPECT_THAT(evaluation_without_file.err(), HasSubstr("nowhere: No such file"));
  TestProgram& evaluation_without_weights = StartEvaluation(&job, job.job_file());
  EXPECT_EQ(evaluation_without_weights.Wait(), 65);
  EXPECT_THAT(evaluation_without_weights.err(), HasSubstr("job.yaml: the header claims"));
  TestProgram& evaluation_of_other_shape =
      StartEvaluation(&job, weights, {"--set", "model.padding=same"});
  EXPECT_EQ(evaluation_of_other_shape.Wait(), 65);
  EXPECT_THAT(evaluation_of_other_shape.err(),
              HasSubstr("\"fc3.weight\" has shape [500, 800], the model's is "));
  TestProgram& evaluation_of_other_model =
      StartEvaluation(&job, weights, {"--set", "model.name=mobilenet"});
  EXPECT_EQ(evaluation_of_other_model.Wait(), 65);
  EXPECT_THAT(evaluation_of_other_model.err(), HasSubstr("is missing; it is another model's"));
}

TEST(Evaluate, FindsNothingRightWithWeightsThatDiverged) {
  TestJob job({.steps = 2});
  job.StartAll();
  job.ExpectAllEnd(0);
  auto weights = tensors::ReadSafetensors(job.output_dir() + "/weights.safetensors");
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  std::vector<tensors::TensorView> views;
  for (tensors::Tensor& tensor : weights->tensors) {
    std::fill(tensor.values.begin(), tensor.values.end(), NAN);
    views.push_back({tensor.name, tensor.shape, tensor.values});
  }
  const std::string file = job.folder() + "/nan.safetensors";
  ASSERT_TRUE(tensors::WriteSafetensors(file, views, weights->metadata).ok());
  TestProgram& evaluation = StartEvaluation(&job, file, {"--set", "evaluation.confusion=true"});
  EXPECT_EQ(evaluation.Wait(), 65);
  EXPECT_THAT(evaluation.out(), HasSubstr("top-1 0.0000, top-5 0.0000, loss "));
  EXPECT_THAT(evaluation.err(),
              HasSubstr("nan.safetensors: the loss on the test set is not finite"));
  EXPECT_EQ(job.OutputBytes("evaluated_confusion.csv"), "");
}

TEST(Evaluate, IsRefusedByServers) {
  TestJob job;
  TestProgram& server = job.StartServer(0, {"--evaluate", "weights"});
  EXPECT_EQ(server.Wait(), 64);
  EXPECT_THAT(server.err(), HasSubstr("there is no flag --evaluate"));
}

TEST(Evaluate, RefusesAConfusionMatrixOfTooManyClasses) {
  TestJob job;
  TestProgram& worker =
      job.StartWorker(0, {"--set", "model.classes=3000", "--set", "evaluation.confusion=true"});
  EXPECT_EQ(worker.Wait(), 78);
  EXPECT_THAT(worker.err(), HasSubstr("a confusion matrix has at most 2000 classes"));
}

}  // namespace
}  // namespace tern::e2e
