#include "common/base/invariants.h"

#include "common/base/logging.h"

namespace tern {

namespace {

#ifdef NDEBUG
constexpr OnBroken kInitialHandler = nullptr;
#else
void EndProcess(const Status& broken) { LOG(FATAL) << "broken invariant: " << broken.message(); }
constexpr OnBroken kInitialHandler = EndProcess;
#endif

}  // namespace

namespace invariants_internal {

std::atomic<OnBroken> on_broken = kInitialHandler;

}  // namespace invariants_internal

OnBroken SetOnBroken(OnBroken handler) { return invariants_internal::on_broken.exchange(handler); }

}  // namespace tern
