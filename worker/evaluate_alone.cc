#include "worker/evaluate_alone.h"

#include <cstdio>
#include <vector>

#include "client/exchange/progress.h"
#include "client/train/compute.h"
#include "client/train/confusion.h"
#include "common/base/counters.h"
#include "common/config/job.h"
#include "common/tensors/safetensors.h"
#include "models/graph/arena.h"
#include "worker/compute_threads.h"
#include "worker/evaluate.h"
#include "worker/net_compute.h"
#include "worker/read_samples.h"

namespace tern::worker {
namespace {

Status LoadWeights(const std::string& path, const models::ParameterTable& table,
                   std::vector<float>* parameters, std::vector<float>* statistics) {
  const auto file = tensors::ReadSafetensors(path);
  if (!file.ok()) return file.status();
  parameters->resize(table.total);
  statistics->resize(table.statistics_total);
  TERN_RETURN_IF_ERROR(models::LoadArena(*file, table, parameters->data()).Within(path));
  return models::LoadStatistics(*file, table, statistics->data()).Within(path);
}

}  // namespace

Status EvaluateAlone(const setup::Setup& setup, uint32_t rank, const std::string& weights_path) {
  const pb::Job job = config::JobForRank(setup.job, rank);
  TERN_RETURN_IF_ERROR(SetComputeThreads(job, rank));
  std::vector<float> parameters, statistics;
  const auto table = models::MakeParameterTable(setup.net);
  if (!table.ok()) return table.status();
  TERN_RETURN_IF_ERROR(LoadWeights(weights_path, *table, &parameters, &statistics));
  const auto test_samples = ReadSamples(setup, job, data::Split::kTest);
  if (!test_samples.ok()) return test_samples.status();
  Registry registry;
  client::Progress progress(registry);
  auto evaluator = Evaluator::Make(
      setup, **test_samples, {.parameters = parameters.data(), .statistics = statistics.data()},
      progress, DeviceOf(job));
  if (!evaluator.ok()) return evaluator.status();
  const bool wants_confusion = job.evaluation().confusion();
  client::Confusion confusion;
  const Result<engine::Score> score =
      (*evaluator)->Run(0, 1, wants_confusion ? &confusion : nullptr);
  if (!score.ok()) return score.status();
  const auto num_samples = static_cast<double>(score->samples);
  std::printf("top-1 %.4f, top-5 %.4f, loss %.6g on %llu test images\n",
              static_cast<double>(score->correct) / num_samples,
              static_cast<double>(score->among_five) / num_samples, score->loss / num_samples,
              static_cast<unsigned long long>(score->samples));
  if (!wants_confusion) return Ok();
  return client::WriteConfusion(job.output_dir(), confusion, setup.net.classes(),
                                (*evaluator)->class_names());
}

}  // namespace tern::worker
