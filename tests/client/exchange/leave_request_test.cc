#include "client/exchange/leave_request.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tern::client {
namespace {

using std::chrono::milliseconds;

TEST(LeaveRequest, IsDueAtTheSignalAndOnceMoreAfterThePatience) {
  LeaveRequest request(milliseconds(1000));
  EXPECT_FALSE(request.TakeDue(milliseconds(5000)).has_value()) << "no signal has arrived";
  request.Begin(Status(Code::kTerminated, "stopped"), milliseconds(5000));
  const auto first = request.TakeDue(milliseconds(5000));
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(first->at_once);
  EXPECT_EQ(first->status.code(), Code::kTerminated);
  EXPECT_FALSE(request.TakeDue(milliseconds(6000)).has_value());
  const auto second = request.TakeDue(milliseconds(6001));
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(second->at_once);
  EXPECT_FALSE(request.TakeDue(milliseconds(9000)).has_value());
}

}  // namespace
}  // namespace tern::client
