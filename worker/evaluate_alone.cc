#include "worker/evaluate_alone.h"

#include <cmath>
#include <cstdio>

#include "client/exchange/progress.h"
#include "client/train/compute.h"
#include "client/train/confusion.h"
#include "common/base/counters.h"
#include "common/base/text.h"
#include "common/config/job.h"
#include "worker/compute_threads.h"
#include "worker/evaluate.h"
#include "worker/gpu_choice.h"
#include "worker/net_compute.h"
#include "worker/read_samples.h"
#include "worker/weights_file.h"

namespace tern::worker {

namespace {
constexpr const char* kConfusionFile = "evaluated_confusion.csv";
}  // namespace

Status EvaluateAlone(const setup::Setup& setup, uint32_t rank, const std::string& weights_path) {
  const pb::Job job = config::JobForRank(setup.job, rank);
  TERN_RETURN_IF_ERROR(TakeGpu(job, rank));
  TERN_RETURN_IF_ERROR(SetComputeThreads(job, rank));
  const auto table = models::MakeParameterTable(setup.net);
  if (!table.ok()) return table.status();
  Result<FileWeights> weights = ReadFileWeights(weights_path, *table);
  if (!weights.ok()) return weights.status();
  const auto test_samples = ReadSamples(setup, job, data::Split::kTest);
  if (!test_samples.ok()) return test_samples.status();
  Registry registry;
  client::Progress progress(registry);
  auto evaluator = Evaluator::Make(
      setup, **test_samples,
      {.parameters = weights->parameters.data(), .statistics = weights->statistics.data()},
      progress, DeviceOf(job));
  if (!evaluator.ok()) return evaluator.status();
  const bool wants_confusion = job.evaluation().confusion();
  client::Confusion confusion;
  const Result<engine::Score> score =
      (*evaluator)->Run(0, 1, wants_confusion ? &confusion : nullptr);
  if (!score.ok()) return score.status();
  if (score->samples == 0) {
    return Status(Code::kBadData, "all test images are damaged; expected one that can be decoded");
  }
  const auto num_samples = static_cast<double>(score->samples);
  std::printf("top-1 %.4f, top-5 %.4f, loss %.6g on %llu test images\n",
              static_cast<double>(score->correct) / num_samples,
              static_cast<double>(score->among_five) / num_samples, score->loss / num_samples,
              static_cast<unsigned long long>(score->samples));
  if (!std::isfinite(score->loss)) {
    return Status(Code::kBadData, Cat(weights_path,
                                      ": the loss on the test set is not finite; the weights are "
                                      "of a training that diverged"));
  }
  if (!wants_confusion) return Ok();
  return client::WriteConfusion(job.output_dir(), kConfusionFile, confusion, setup.net.classes(),
                                (*evaluator)->class_names());
}

}  // namespace tern::worker
