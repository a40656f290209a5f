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
  int64_t chosen_target = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) chosen_target = target;
  }
  hwy::SetSupportedTargetsForTest(chosen_target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return chosen_target != 0 || name.empty();
}

}  // namespace tern::kernels
