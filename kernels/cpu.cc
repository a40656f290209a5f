#include "kernels/cpu.h"

#include "hwy/highway.h"
#include "hwy/targets.h"

namespace tern::kernels {

std::vector<std::string> CpuTargets() {
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

bool UseCpuTargetForTest(std::string_view name) {
  hwy::SetSupportedTargetsForTest(0);
  int64_t chosen = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) chosen = target;
  }
  hwy::SetSupportedTargetsForTest(chosen);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return chosen != 0 || name.empty();
}

}  // namespace tern::kernels
