// Tests what shard 0 does when the key of a worker is taken from the list of allowed keys. The
// worker's connection is still there; what it sends does not arrive any more.
#include <gmock/gmock.h>

#include "tests/common/protocol/members/shard0/shard0.h"

namespace tern::protocol::test {
namespace {

using testing::HasSubstr;
using Presence = Coordinator::Worker::Presence;

Shard0 JobOfTwo(OnLoss on_loss) {
  Shard0 shard0(on_loss);
  shard0.GatherWorkers();
  shard0.PassTime(milliseconds(500), {0, 1});
  return shard0;
}

TEST(RevokedKey, ItsWorkerIsLostAtOnceAndTold) {
  for (const OnLoss on_loss : {OnLoss::kFail, OnLoss::kWait, OnLoss::kShrink}) {
    Shard0 shard0 = JobOfTwo(on_loss);
    const ControlActions out = shard0.Revoke(101);
    EXPECT_EQ(shard0.workers()[1].presence, Presence::kLost) << NameOf(on_loss);
    EXPECT_FALSE(shard0.workers()[1].may_return);
    EXPECT_THAT(Shard0::LogOf(out) + Shard0::AbortTo(100, out).sentence(),
                HasSubstr("its key was revoked"));
    EXPECT_EQ(Shard0::RefuseTo(101, out).code(), 77u);
    EXPECT_EQ(Shard0::RefuseTo(101, out).then(), pb::Refuse::leave);
  }
}

TEST(RevokedKey, UnderWaitAProcessWithAnotherKeyTakesTheRank) {
  Shard0 shard0 = JobOfTwo(OnLoss::kWait);
  shard0.Revoke(101);
  shard0.Deliver(301, HelloMessage(TestHello(1, 31)));
  EXPECT_EQ(shard0.workers()[1].presence, Presence::kPresent);
  EXPECT_EQ(shard0.workers()[1].incarnation, 31u);
}

TEST(RevokedKey, OfNoMemberChangesNothing) {
  Shard0 shard0 = JobOfTwo(OnLoss::kFail);
  const ControlActions out = shard0.Revoke(555);
  EXPECT_EQ(Shard0::RefuseTo(555, out).code(), 77u);
  EXPECT_EQ(shard0.workers()[0].presence, Presence::kPresent);
  EXPECT_EQ(shard0.workers()[1].presence, Presence::kPresent);
  EXPECT_EQ(Shard0::AbortTo(100, out).code(), 0u);
}

TEST(RevokedKey, OfAShardIsLogged) {
  Shard0 shard0(OnLoss::kWait, 2);
  shard0.GatherWorkers();
  pb::Hello hello = TestHello(1, 21);
  hello.set_role(pb::Hello::shard);
  shard0.Deliver(200, HelloMessage(hello));
  EXPECT_THAT(Shard0::LogOf(shard0.Revoke(200)),
              HasSubstr("server shard 1 is cut off: its key was revoked"));
}

}  // namespace
}  // namespace tern::protocol::test
