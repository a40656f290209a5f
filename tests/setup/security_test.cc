#include "setup/security.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <string>
#include <utility>

#include "common/base/text.h"
#include "setup/key_files.h"
#include "tests/setup/key_folder.h"
#include "tests/setup/small_job.h"

namespace tern::setup {
namespace {

using net::Principal;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr Principal kWorker0{Principal::Role::kWorker, 0}, kWorker1{Principal::Role::kWorker, 1};
constexpr Principal kShard0{Principal::Role::kShard, 0}, kShard1{Principal::Role::kShard, 1};

constexpr const char* kTwoServers =
    "servers=[{address: '127.0.0.1:7500'}, {address: '127.0.0.1:7501'}]";

// The keys of a job with two workers and two shards, in files as `tern keys make` writes them.
class SecurityTest : public ::testing::Test {
 protected:
  SecurityTest() {
    for (const Principal& principal : {kWorker0, kWorker1, kShard0, kShard1}) {
      net::KeyPair pair = net::MakeKeyPair();
      peers_.emplace(pair.public_key, principal);
      public_keys_[principal] = pair.public_key;
      EXPECT_TRUE(WriteSecretFile(PathOf(principal), pair.secret_key).ok());
    }
    WritePeers();
    setup_ = SmallSetup({"security=curve", kTwoServers, "keys.dir=" + folder_.path()});
  }
  std::string PathOf(const Principal& principal) const {
    return folder_ / Cat(principal.role == Principal::Role::kWorker ? "worker." : "shard.",
                         principal.number, ".secret");
  }
  void WritePeers() const { folder_.Write("peers", PeersText(peers_), 0644); }
  Result<net::Security> Load(const Principal& self, int keys_fd = -1) const {
    return LoadSecurity(setup_->job, self, keys_fd);
  }
  std::string Refusal(const Principal& self) const {
    const auto security = Load(self);
    EXPECT_EQ(security.status().code(), Code::kBadJob);
    return security.status().message();
  }
  void Remove(const Principal& principal) { peers_.erase(public_keys_[principal]); }

  const KeyFolder folder_;
  net::AllowList peers_;
  std::map<Principal, net::PublicKey> public_keys_;
  std::unique_ptr<setup::Setup> setup_;
};

TEST_F(SecurityTest, OfAWorkerPinsTheShards) {
  const auto security = Load(kWorker1);
  ASSERT_TRUE(security.ok()) << security.status().message();
  EXPECT_EQ(security->mechanism, net::Security::Mechanism::kCurve);
  EXPECT_EQ(security->self, kWorker1);
  EXPECT_EQ(security->own_public, public_keys_[kWorker1]);
  EXPECT_EQ(net::PublicHalf(security->own_secret), public_keys_[kWorker1]);
  EXPECT_THAT(security->servers,
              ElementsAre(ElementsAre(public_keys_[kShard0]), ElementsAre(public_keys_[kShard1])));
  EXPECT_THAT(security->allowed, SizeIs(0));
  EXPECT_EQ(security->domain.substr(0, 6), "small/");
}

TEST_F(SecurityTest, OfAShardAdmitsWorkersAndAtShard0OtherShards) {
  const auto of_shard0 = Load(kShard0), of_shard1 = Load(kShard1);
  ASSERT_TRUE(of_shard0.ok() && of_shard1.ok());
  EXPECT_EQ(of_shard0->allowed, (net::AllowList{{public_keys_[kWorker0], kWorker0},
                                                {public_keys_[kWorker1], kWorker1},
                                                {public_keys_[kShard1], kShard1}}));
  EXPECT_EQ(of_shard1->allowed, (net::AllowList{{public_keys_[kWorker0], kWorker0},
                                                {public_keys_[kWorker1], kWorker1}}));
  EXPECT_EQ(of_shard0->domain, of_shard1->domain);
}

TEST_F(SecurityTest, LeavesOutDaemonsThatTheJobDoesNotHave) {
  peers_[net::MakeKeyPair().public_key] = {Principal::Role::kWorker, 2};
  peers_[net::MakeKeyPair().public_key] = {Principal::Role::kShard, 2};
  WritePeers();
  const auto security = Load(kShard0);
  ASSERT_TRUE(security.ok());
  EXPECT_THAT(security->allowed, SizeIs(3));
  EXPECT_THAT(security->servers, SizeIs(2));
}

TEST_F(SecurityTest, KeepsBothKeysOfAShard) {
  peers_[net::MakeKeyPair().public_key] = kShard1;
  WritePeers();
  EXPECT_THAT(Load(kWorker0)->servers, ElementsAre(SizeIs(1), SizeIs(2)));
}

TEST_F(SecurityTest, RefusesTheKeyOfAnother) {
  std::filesystem::rename(PathOf(kWorker1), PathOf(kWorker0));
  EXPECT_THAT(Refusal(kWorker0),
              HasSubstr("worker.0.secret: saw the key of worker 1, expected that of worker 0"));
  std::filesystem::remove(PathOf(kWorker0));
  ASSERT_TRUE(WriteSecretFile(PathOf(kWorker0), net::MakeKeyPair().secret_key).ok());
  EXPECT_THAT(Refusal(kWorker0),
              AllOf(HasSubstr("saw the key of nobody in the job"), HasSubstr("copy both files")));
}

TEST_F(SecurityTest, RefusesAnOwnKeyThatTheListDoesNotHave) {
  Remove(kWorker0);
  WritePeers();
  EXPECT_THAT(Refusal(kWorker0), HasSubstr("it may have been revoked"));
  EXPECT_TRUE(Load(kShard0).ok());
}

TEST_F(SecurityTest, RefusesAListWithoutAShard) {
  Remove(kShard1);
  WritePeers();
  EXPECT_THAT(Refusal(kWorker0), HasSubstr("peers: saw no key of shard 1"));
}

TEST_F(SecurityTest, ReadsTheListAgain) {
  EXPECT_THAT(*LoadAllowList(setup_->job, kShard0), SizeIs(3));
  Remove(kWorker1);
  WritePeers();
  const auto allowed = LoadAllowList(setup_->job, kShard0);
  ASSERT_TRUE(allowed.ok());
  EXPECT_EQ(*allowed,
            (net::AllowList{{public_keys_[kWorker0], kWorker0}, {public_keys_[kShard1], kShard1}}));
  folder_.Write("peers", "worker 0 = ?\n", 0644);
  EXPECT_THAT(LoadAllowList(setup_->job, kShard0).status().message(), HasSubstr("peers:1: saw"));
}

TEST_F(SecurityTest, ReplacesPlaceholdersInThePath) {
  pb::Keys keys;
  keys.set_own("/k/{rank}/{role}-{rank}");
  keys.set_peers("/p");
  EXPECT_EQ(KeyPathsOf(keys, kShard1).own, "/k/1/shard-1");
  EXPECT_EQ(KeyPathsOf(keys, kWorker0).peers, "/p");
}

TEST_F(SecurityTest, OfAnotherJobHasAnotherDomain) {
  auto other = SmallSetup({"security=curve", kTwoServers, "keys.dir=" + folder_.path(), "seed=2"});
  EXPECT_NE(LoadSecurity(other->job, kShard0, -1)->domain, Load(kShard0)->domain);
}

TEST_F(SecurityTest, IsNullWithoutCurve) {
  const auto security = LoadSecurity(SmallSetup()->job, kShard0, -1);
  ASSERT_TRUE(security.ok());
  EXPECT_EQ(security->mechanism, net::Security::Mechanism::kNull);
}

TEST_F(SecurityTest, WithoutKeysSaysHowToMakeThem) {
  const auto security = LoadSecurity(SmallSetup({"security=curve"})->job, kShard0, -1);
  EXPECT_EQ(security.status().code(), Code::kBadJob);
  EXPECT_THAT(security.status().message(), HasSubstr("tern keys make DIR --job JOB"));
}

TEST_F(SecurityTest, ComesFromADescriptorWhichIsThenClosed) {
  const auto setup = SmallSetup({"security=curve", kTwoServers});
  net::KeyPair pair = net::MakeKeyPair();
  Remove(kWorker0);
  peers_[pair.public_key] = kWorker0;
  const auto fd = MakeKeysFd(pair.secret_key, nullptr, peers_);
  ASSERT_TRUE(fd.ok()) << fd.status().message();
  EXPECT_NE(fcntl(*fd, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(fcntl(*fd, F_GET_SEALS), F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
  EXPECT_LT(write(*fd, "x", 1), 0);
  for (int start = 0; start < 2; ++start) {  // A daemon that starts again gets the same file.
    const int inherited_fd = dup(*fd);
    const auto security = LoadSecurity(setup->job, kWorker0, inherited_fd);
    ASSERT_TRUE(security.ok()) << security.status().message();
    EXPECT_EQ(security->own_public, pair.public_key);
    EXPECT_EQ(net::PublicHalf(security->own_secret), pair.public_key);
    EXPECT_THAT(security->servers, SizeIs(2));
    EXPECT_EQ(fcntl(inherited_fd, F_GETFD), -1);
  }
  EXPECT_FALSE(LoadAllowList(setup->job, kShard0).ok());
  close(*fd);
}

TEST_F(SecurityTest, RefusesADescriptorWithoutKeysOrForAnotherJob) {
  const auto setup = SmallSetup({"security=curve"});
  for (const std::string& content :
       {std::string(), std::string(10, 'x'), std::string(41, ' '), std::string(1 << 20, 'x')}) {
    const int fd = memfd_create("test", MFD_CLOEXEC);
    ASSERT_EQ(write(fd, content.data(), content.size()), static_cast<ssize_t>(content.size()));
    EXPECT_EQ(LoadSecurity(setup->job, kWorker0, fd).status().code(), Code::kUsage);
  }
  EXPECT_EQ(LoadSecurity(setup->job, kWorker0, 987).status().code(), Code::kUsage);
  EXPECT_EQ(LoadSecurity(SmallSetup()->job, kWorker0, 987).status().code(), Code::kUsage);
  EXPECT_EQ(Load(kWorker0, 987).status().code(), Code::kUsage);
}

}  // namespace
}  // namespace tern::setup
