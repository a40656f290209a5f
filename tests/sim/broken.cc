#include "tests/sim/broken.h"

#include <utility>

#include "common/base/invariants.h"

namespace tern::sim {

namespace {

thread_local std::string broken_here;

[[maybe_unused]] const OnBroken kBefore = SetOnBroken([](const Status& broken) {
  if (broken_here.empty()) broken_here = "broken: " + broken.message();
});

}  // namespace

std::string TakeBroken() { return std::exchange(broken_here, {}); }

}  // namespace tern::sim
