// Tests of Lookup, and of a DealerSocket whose server has a name.
#include "common/net/lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "common/base/mutex.h"
#include "tests/common/net/net_testing.h"

namespace tern::net {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Link = DealerSocket::Link;

// A name server that a test can change, and whose answers it can hold back.
class Names {
 public:
  void Set(const std::string& host, const std::string& address) {
    const MutexLock lock(mutex_);
    addresses_[host] = address;
  }
  void Hold(bool is_held) {
    const MutexLock lock(mutex_);
    is_held_ = is_held;
  }
  int num_questions() {
    const MutexLock lock(mutex_);
    return num_questions_;
  }
  Resolver AsResolver() {
    return [this](const std::string& host) { return Resolve(host); };
  }

 private:
  bool TryAnswer() {
    const MutexLock lock(mutex_);
    return !is_held_;
  }
  Result<std::vector<std::string>> Resolve(const std::string& host) {
    {
      const MutexLock lock(mutex_);
      ++num_questions_;
    }
    while (!TryAnswer()) usleep(1000);
    const MutexLock lock(mutex_);
    if (addresses_[host].empty()) return Status(Code::kAddress, "no such name: " + host);
    return std::vector<std::string>{addresses_[host]};
  }

  Mutex mutex_;
  std::map<std::string, std::string> addresses_ TERN_GUARDED_BY(mutex_);
  bool is_held_ TERN_GUARDED_BY(mutex_) = false;
  int num_questions_ TERN_GUARDED_BY(mutex_) = 0;
};

// A thread of a Lookup may live longer than a test, so the names do, too.
Names& NewNames() {
  static auto* const all_names = new std::deque<Names>;
  return all_names->emplace_back();
}

template <typename Condition>
bool Await(const Condition& condition) {
  for (const Time end = Now() + kPatience; Now() < end; usleep(1000))
    if (condition()) return true;
  return condition();
}

TEST(Lookup, ANumericHostIsItsOwnAddress) {
  Names& names = NewNames();
  for (const auto& [host, address] :
       {std::pair("10.0.0.1", "10.0.0.1"), std::pair("[::1]", "::1"), std::pair("::1", "::1")}) {
    Lookup lookup(host, names.AsResolver());
    EXPECT_THAT(lookup.Poll(Now()), ElementsAre(address));
    lookup.Forget();
    EXPECT_THAT(lookup.Poll(Now()), ElementsAre(address));
  }
  EXPECT_EQ(names.num_questions(), 0);
}

TEST(Lookup, NeverWaitsForTheAnswer) {
  Names& names = NewNames();
  names.Set("a", "10.0.0.1");
  names.Hold(true);
  Lookup lookup("a", names.AsResolver());
  EXPECT_TRUE(lookup.Poll(Now()).empty());
  EXPECT_TRUE(Await([&] { return names.num_questions() == 1; }));
  EXPECT_TRUE(lookup.Poll(Now()).empty());
  EXPECT_EQ(lookup.failure(), "");
  names.Hold(false);
  EXPECT_TRUE(Await([&] { return !lookup.Poll(Now()).empty(); }));
  EXPECT_THAT(lookup.Poll(Now()), ElementsAre("10.0.0.1"));
  EXPECT_EQ(names.num_questions(), 1);
}

TEST(Lookup, AsksAgainUntilTheNameIsThere) {
  Names& names = NewNames();
  Lookup lookup("a", names.AsResolver());
  Time now = Now();
  EXPECT_TRUE(Await([&] { return !lookup.Poll(now).empty() || !lookup.failure().empty(); }));
  EXPECT_EQ(lookup.failure(), "no such name: a");
  EXPECT_TRUE(lookup.Poll(now + Lookup::kRetry / 2).empty());
  EXPECT_EQ(names.num_questions(), 1);
  names.Set("a", "10.0.0.1");
  now += Lookup::kRetry;
  EXPECT_TRUE(Await([&] { return !lookup.Poll(now).empty(); }));
  EXPECT_EQ(lookup.failure(), "");
}

TEST(Lookup, AsksAnewForAnAddressThatMayHaveChanged) {
  Names& names = NewNames();
  names.Set("a", "10.0.0.1");
  Lookup lookup("a", names.AsResolver());
  EXPECT_TRUE(Await([&] { return !lookup.Poll(Now()).empty(); }));
  names.Set("a", "10.0.0.2");
  EXPECT_THAT(lookup.Poll(Now()), ElementsAre("10.0.0.1"));
  lookup.Forget();
  EXPECT_TRUE(Await([&] { return !lookup.Poll(Now()).empty(); }));
  EXPECT_THAT(lookup.Poll(Now()), ElementsAre("10.0.0.2"));
}

TEST(Lookup, MayEndWhileAQuestionIsOpen) {
  Names& names = NewNames();
  names.Hold(true);
  {
    Lookup lookup("a", names.AsResolver());
    lookup.Poll(Now());
    EXPECT_TRUE(Await([&] { return names.num_questions() == 1; }));
  }
  names.Hold(false);
}

TEST(Lookup, ADealerWaitsForTheNameOfItsServer) {
  Names& names = NewNames();
  Context context;
  auto router = BindLoopback(context);
  SocketOptions options;
  options.resolver = names.AsResolver();
  auto dealer = Value(DealerSocket::Connect(context, "server", router->port(), options));
  EXPECT_TRUE(Await([&] { return dealer->link() == Link::kUp || !dealer->obstacle().ok(); }));
  EXPECT_EQ(dealer->link(), Link::kConnecting);
  EXPECT_EQ(dealer->obstacle().code(), Code::kAddress);
  EXPECT_EQ(dealer->obstacle().message(), "has no address yet: no such name: server");
  EXPECT_EQ(dealer->Send(NumberedEnvelope(1)).outcome, SendOutcome::kUnreachable);
  names.Set("server", "127.0.0.1");
  EXPECT_TRUE(AwaitLink(*dealer, Link::kUp));
  EXPECT_TRUE(dealer->obstacle().ok());
  EXPECT_THAT(dealer->TakePath(), HasSubstr(" (lo) to 127.0.0.1:"));
  EXPECT_EQ(dealer->TakePath(), "");
}

TEST(Lookup, ADealerLooksUpAServerThatWasStartedAgain) {
  Names& names = NewNames();
  names.Set("server", "127.0.0.1");
  Context context;
  auto router = BindLoopback(context);
  const uint16_t port = router->port();
  SocketOptions options;
  options.resolver = names.AsResolver();
  auto dealer = Value(DealerSocket::Connect(context, "server", port, options));
  ASSERT_TRUE(AwaitLink(*dealer, Link::kUp));
  router.reset();
  ASSERT_TRUE(AwaitLink(*dealer, Link::kLost));
  router = Value(RouterSocket::Bind(context, "127.0.0.2", port, {}));
  names.Set("server", "127.0.0.2");
  dealer = Value(DealerSocket::Connect(context, "server", port, options, 1, dealer.get()));
  ASSERT_TRUE(AwaitLink(*dealer, Link::kUp));
  EXPECT_THAT(dealer->TakePath(), HasSubstr("127.0.0.2"));
}

}  // namespace
}  // namespace tern::net
