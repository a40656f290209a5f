// Tests of Door: a message that names a rank counts only from the daemon whose key it is.
#include "server/door.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

#include "tests/common/net/key_testing.h"

namespace tern::server {
namespace {

using net::Principal;
using net::Worker;
using ::testing::HasSubstr;

Principal Shard(uint32_t number) { return {Principal::Role::kShard, number}; }

net::ReceivedMessage MessageFrom(std::optional<Principal> sender, pb::Envelope envelope) {
  net::ReceivedMessage received;
  received.principal = sender;
  received.envelope = std::move(envelope);
  return received;
}

pb::Envelope HelloOf(pb::Hello::Role role, uint32_t rank) {
  pb::Envelope envelope;
  envelope.mutable_hello()->set_role(role);
  envelope.mutable_hello()->set_rank(rank);
  return envelope;
}

TEST(Door, SixteenRanksAndThreeShardsSpeakOnlyForThemselves) {
  std::vector<std::pair<Principal, pb::Envelope>> hellos;
  for (uint32_t rank = 0; rank < 16; ++rank)
    hellos.emplace_back(Worker(rank), HelloOf(pb::Hello::worker, rank));
  for (uint32_t shard = 1; shard <= 3; ++shard)
    hellos.emplace_back(Shard(shard), HelloOf(pb::Hello::shard, shard));
  Registry registry;
  Door door(registry, 0);
  uint64_t num_refused = 0;
  for (const auto& [sender, unused] : hellos) {
    for (const auto& [named, hello] : hellos) {
      const net::ReceivedMessage received = MessageFrom(sender, hello);
      EXPECT_EQ(door.LetsIn(received), sender == named);
      if (sender == named) continue;
      ++num_refused;
      const auto answer = Door::AnswerTo(received);
      ASSERT_TRUE(answer.has_value());
      EXPECT_EQ(answer->head.refuse().code(), 77u);
      EXPECT_EQ(answer->head.refuse().then(), pb::Refuse::leave);
      EXPECT_THAT(answer->head.refuse().sentence(),
                  HasSubstr("the key of " + ToString(sender) + " was used to speak for " +
                            ToString(named)));
    }
  }
  EXPECT_EQ(
      registry.GetCounter("tern_server_refused_total", "", {{"lane", "0"}, {"reason", "not_yours"}})
          .value(),
      num_refused);
}

// A message type with a field `rank` is compared without being named in door.cc.
TEST(Door, EveryMessageThatNamesItsSendersRankIsCompared) {
  const std::set<std::string> compared = {"hello",   "heartbeat",  "scale", "push",
                                          "figures", "state_want", "bye"};
  const auto* const body = pb::Envelope::descriptor()->oneof_decl(0);
  Registry registry;
  Door door(registry, 1);
  for (int i = 0; i < body->field_count(); ++i) {
    pb::Envelope envelope = net::EnvelopeOf(body->field(i)->number());
    const bool is_compared = compared.contains(body->field(i)->name());
    EXPECT_EQ(SpeaksFor(envelope).has_value(), is_compared) << body->field(i)->name();
    EXPECT_EQ(door.LetsIn(MessageFrom(Worker(3), envelope)), !is_compared)
        << body->field(i)->name() << " without a rank is worker 0's";
    EXPECT_TRUE(door.LetsIn(MessageFrom(Worker(0), envelope))) << body->field(i)->name();
    EXPECT_TRUE(door.LetsIn(MessageFrom(std::nullopt, envelope))) << "there are no keys";
    EXPECT_EQ(Door::AnswerTo(MessageFrom(Worker(3), envelope)).has_value(), envelope.has_hello());
  }
}

}  // namespace
}  // namespace tern::server
