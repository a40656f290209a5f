#include "common/base/invariants.h"

#include "common/base/logging.h"

namespace tern {

namespace {

#ifdef NDEBUG
constexpr OnBroken kAtStart = nullptr;
#else
void EndProcess(const Status& broken) { LOG(FATAL) << "broken invariant: " << broken.message(); }
constexpr OnBroken kAtStart = EndProcess;
#endif

}  // namespace

namespace invariants_internal {

std::atomic<OnBroken> on_broken = kAtStart;

}  // namespace invariants_internal

OnBroken SetOnBroken(OnBroken now) { return invariants_internal::on_broken.exchange(now); }

}  // namespace tern
