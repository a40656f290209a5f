// Programs that link this file check the invariants of every protocol state machine after every
// event, in release builds too. A broken invariant fails the test.
#include <gtest/gtest.h>

#include "common/base/invariants.h"

namespace tern::test {
namespace {

[[maybe_unused]] const InvariantHandler kPreviousHandler =
    SetInvariantHandler([](const Status& broken) { ADD_FAILURE() << broken.message(); });

}  // namespace
}  // namespace tern::test
