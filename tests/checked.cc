// Every machine is checked after every event of these tests, whatever the build.
#include <gtest/gtest.h>

#include "common/base/invariants.h"

namespace tern::test {
namespace {

[[maybe_unused]] const InvariantHandler kBefore =
    SetInvariantHandler([](const Status& broken) { ADD_FAILURE() << broken.message(); });

}  // namespace
}  // namespace tern::test
