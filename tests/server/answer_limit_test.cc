// Tests of how often a server answers peers that do not belong to the job.
#include "server/answer_limit.h"

#include <gtest/gtest.h>

namespace tern::server {
namespace {

using std::chrono::seconds;

int NumAnswered(AnswerLimit* limit, net::PeerId peer, int num_messages, Time now) {
  int num_answered = 0;
  for (int i = 0; i < num_messages; ++i) num_answered += limit->MayAnswer(peer, now);
  return num_answered;
}

void StayConnected(net::PeerId) {}

TEST(AnswerLimit, AllowsSixteenAtOnceAndThenOneASecond) {
  Registry registry;
  AnswerLimit limit(registry, 0, StayConnected);
  EXPECT_EQ(NumAnswered(&limit, 1, 100, seconds(10)), 16);
  EXPECT_EQ(NumAnswered(&limit, 1, 100, seconds(11)), 1);
  EXPECT_EQ(NumAnswered(&limit, 2, 100, seconds(11)), 16) << "each peer counts for itself";
  EXPECT_EQ(NumAnswered(&limit, 1, 100, seconds(15)), 4);
  EXPECT_EQ(NumAnswered(&limit, 1, 100, seconds(1000)), 16);
  EXPECT_NE(registry.PrometheusText().find("tern_server_unanswered_total{lane=\"0\"} 447"),
            std::string::npos)
      << registry.PrometheusText();
}

TEST(AnswerLimit, HangsUpAfterManyMessagesWithoutAnAnswer) {
  Registry registry;
  std::vector<net::PeerId> hung_up;
  AnswerLimit limit(registry, 0, [&](net::PeerId peer) { hung_up.push_back(peer); });
  EXPECT_EQ(NumAnswered(&limit, 1, 16 + 16, seconds(10)), 16);
  EXPECT_EQ(NumAnswered(&limit, 2, 16, seconds(10)), 16);
  EXPECT_TRUE(hung_up.empty());
  EXPECT_EQ(NumAnswered(&limit, 1, 1, seconds(10)), 0);
  EXPECT_EQ(hung_up, std::vector<net::PeerId>{1});
  EXPECT_EQ(NumAnswered(&limit, 1, 1, seconds(10)), 0);
  EXPECT_EQ(hung_up.size(), 2u) << "messages that had arrived before are not answered, either";
}

TEST(AnswerLimit, KeepsADaemonThatWaitsForItsRankConnected) {
  Registry registry;
  int num_hung_up = 0;
  AnswerLimit limit(registry, 0, [&](net::PeerId) { ++num_hung_up; });
  int num_answered = 0;
  for (int hello = 0; hello < 600; ++hello)
    num_answered += limit.MayAnswer(1, seconds(10) + hello * std::chrono::milliseconds(100));
  EXPECT_EQ(num_answered, 16 + 59);
  EXPECT_EQ(num_hung_up, 0);
}

TEST(AnswerLimit, RemembersALimitedNumberOfPeers) {
  Registry registry;
  AnswerLimit limit(registry, 0, StayConnected);
  for (net::PeerId peer = 1; peer <= 4096; ++peer) EXPECT_TRUE(limit.MayAnswer(peer, seconds(10)));
  EXPECT_FALSE(limit.MayAnswer(5000, seconds(10)));
  EXPECT_TRUE(limit.MayAnswer(7, seconds(20)));
  // By now all peers may get 16 answers again, so they need not be remembered.
  EXPECT_EQ(NumAnswered(&limit, 5000, 100, seconds(26)), 16);
  EXPECT_TRUE(limit.MayAnswer(7, seconds(26)));
}

}  // namespace
}  // namespace tern::server
