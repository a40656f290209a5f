#include "worker/gpu_choice.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "common/base/logging.h"
#include "common/base/text.h"

namespace tern::worker {

namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

// Whether a file in /dev is that of a GPU: nvidia0, and not nvidiactl.
bool IsGpu(const std::string& file) {
  constexpr std::string_view kPrefix = "nvidia";
  return file.size() > kPrefix.size() && file.starts_with(kPrefix) &&
         file.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
}

}  // namespace

std::vector<std::string> GpusOf(const setup::Environment& environment,
                                const std::string& device_folder) {
  std::vector<std::string> gpus;
  if (const char* visible = environment(kVisible); visible != nullptr) {
    const std::string text = visible;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      gpus.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return gpus;
  }
  std::error_code ignored_error;
  for (const auto& entry : std::filesystem::directory_iterator(device_folder, ignored_error)) {
    if (IsGpu(entry.path().filename())) gpus.push_back(Cat(gpus.size()));
  }
  return gpus;
}

Result<std::string> ChooseGpu(const std::vector<std::string>& gpus, std::optional<uint32_t> wanted,
                              uint32_t place) {
  if (gpus.empty()) return wanted.has_value() ? Cat(*wanted) : "";
  if (!wanted.has_value()) return gpus[place % gpus.size()];
  if (*wanted < gpus.size()) return gpus[*wanted];
  return Status(Code::kBadJob, Cat("workers.gpu is ", *wanted, ", but this host has ", gpus.size(),
                                   gpus.size() == 1 ? " GPU" : " GPUs",
                                   "; expected a number from 0 to ", gpus.size() - 1));
}

Status TakeGpu(const pb::Job& job, uint32_t rank) {
  const pb::Workers& workers = job.workers();
  if (workers.device() != pb::Workers::cuda) return Ok();
  const setup::Environment environment = setup::ProcessEnvironment();
  const auto local_rank = setup::LocalRankOf(environment);
  if (!local_rank.ok()) return local_rank.status();
  const std::vector<std::string> gpus = GpusOf(environment);
  const auto gpu = ChooseGpu(gpus, workers.has_gpu() ? std::optional(workers.gpu()) : std::nullopt,
                             local_rank->has_value() ? (*local_rank)->value : rank);
  if (!gpu.ok() || gpu->empty()) return gpu.status();
  // The numbers are then those of nvidia-smi; those that the user lists may be in another order.
  if (environment(kVisible) == nullptr) setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", /*overwrite=*/0);
  setenv(kVisible, gpu->c_str(), /*overwrite=*/1);
  LOG(INFO) << "this worker computes on GPU " << *gpu << " of " << gpus.size() << ", by "
            << (workers.has_gpu()         ? "workers.gpu"
                : local_rank->has_value() ? (*local_rank)->variable
                                          : "its rank");
  return Ok();
}

}  // namespace tern::worker
