#include "common/base/invariants.h"

#include "common/base/logging.h"

namespace tern {

namespace {

#ifdef NDEBUG
constexpr InvariantHandler kInitialHandler = nullptr;
#else
void EndProcess(const Status& violation) {
  LOG(FATAL) << "broken invariant: " << violation.message();
}
constexpr InvariantHandler kInitialHandler = EndProcess;
#endif

}  // namespace

namespace invariants_internal {

std::atomic<InvariantHandler> current_handler = kInitialHandler;

}  // namespace invariants_internal

InvariantHandler SetInvariantHandler(InvariantHandler handler) {
  return invariants_internal::current_handler.exchange(handler);
}

}  // namespace tern
