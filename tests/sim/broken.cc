#include "tests/sim/broken.h"

#include <utility>

#include "common/base/invariants.h"

namespace tern::sim {

namespace {

thread_local std::string broken_invariant;

[[maybe_unused]] const InvariantHandler kPreviousHandler =
    SetInvariantHandler([](const Status& violation) {
      if (broken_invariant.empty()) broken_invariant = "broken: " + violation.message();
    });

}  // namespace

std::string TakeBrokenInvariant() { return std::exchange(broken_invariant, {}); }

}  // namespace tern::sim
