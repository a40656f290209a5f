// Tests of the failpoints of sockets: lost messages, flipped bits, and connections that are cut.
#include "common/net/socket_faults.h"

#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "common/base/armed_failpoints.h"
#include "common/base/failpoint_flag.h"
#include "tests/common/net/net_testing.h"

namespace tern::net {
namespace {

class SocketFaults : public testing::Test {
 protected:
  SocketFaults() : router_(BindLoopback(context_)), dealer_(ConnectTo(context_, *router_)) {
    EXPECT_TRUE(AwaitLink(*dealer_, DealerSocket::Link::kUp));
  }
  ~SocketFaults() override { ArmFailpoints({}); }
  static void Arm(const std::string& text) {
    const Result<Failpoint> failpoint = ParseFailpoint(text, "server");
    ASSERT_TRUE(failpoint.ok()) << failpoint.status().message();
    ArmFailpoints({*failpoint});
  }
  // Sends messages 1 to `count`, each with a payload of 100 zeros.
  void SendNumbers(uint64_t count) {
    for (uint64_t number = 1; number <= count; ++number)
      ASSERT_TRUE(dealer_->Send(NumberedEnvelope(number), Text(std::string(100, '\0'))).ok());
  }
  uint64_t NumberOfNextMessage() {
    const auto received = AwaitMessage(*router_);
    return received.has_value() ? received->envelope.push().in_round().round() : 0;
  }

  Context context_;
  std::unique_ptr<RouterSocket> router_;
  std::unique_ptr<DealerSocket> dealer_;
};

TEST_F(SocketFaults, LoseAMessageThatIsSent) {
  Arm("net.send=drop@2");
  SendNumbers(3);
  EXPECT_EQ(NumberOfNextMessage(), 1u);
  EXPECT_EQ(NumberOfNextMessage(), 3u);
}

TEST_F(SocketFaults, LoseAMessageThatIsReceived) {
  Arm("net.receive=drop@2");
  SendNumbers(3);
  EXPECT_EQ(NumberOfNextMessage(), 1u);
  EXPECT_EQ(NumberOfNextMessage(), 3u);
}

// A message whose flipped bit nobody would notice is not lost, so that it would reach a sum.
TEST_F(SocketFaults, FlipOneBitOfEachMessage) {
  Arm("net.receive=flip");
  constexpr uint64_t kNumMessages = 40;
  SendNumbers(kNumMessages);
  uint64_t num_damaged = 0;
  for (uint64_t number = 1; number <= kNumMessages; ++number) {
    const auto received = AwaitMessage(*router_);
    ASSERT_TRUE(received.has_value());
    int num_flipped_bits = 0;
    for (const char byte : received->payload.view())
      num_flipped_bits += std::popcount(static_cast<uint8_t>(byte));
    EXPECT_LE(num_flipped_bits, 1);
    const bool is_whole =
        !received->error.has_value() &&
        received->envelope.SerializeAsString() == NumberedEnvelope(number).SerializeAsString();
    if (num_flipped_bits == 1 || !is_whole) ++num_damaged;
  }
  EXPECT_EQ(num_damaged, kNumMessages);
}

TEST_F(SocketFaults, CutTheConnection) {
  Arm("net.send=cut@1");
  SendNumbers(1);
  EXPECT_TRUE(AwaitLink(*dealer_, DealerSocket::Link::kLost));
}

}  // namespace
}  // namespace tern::net
