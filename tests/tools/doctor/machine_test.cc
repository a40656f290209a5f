// Tests of how `tern doctor` looks at a machine: control groups, ports, routes and servers.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/base/file.h"
#include "common/base/text.h"
#include "common/net/socket.h"
#include "common/net/tcp_listener.h"
#include "tools/doctor/disk.h"
#include "tools/doctor/limits.h"
#include "tools/doctor/links.h"
#include "tools/doctor/members.h"
#include "tools/doctor/ports.h"
#include "tools/doctor/tcp.h"

namespace tern::tools {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A folder in place of "/", which the destructor removes.
class FakeRoot {
 public:
  FakeRoot() {
    std::string name = testing::TempDir() + "root.XXXXXX";
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  const std::string& path() const { return path_; }
  void Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = path_ + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

 private:
  std::string path_;
};

TEST(Tcp, IsReadFromTheKernelsSettings) {
  const FakeRoot root;
  root.Write("/proc/sys/net/ipv4/tcp_slow_start_after_idle", "1\n");
  root.Write("/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n");
  const TcpSettings settings = ReadTcpSettings(root.path());
  EXPECT_TRUE(settings.slow_start_after_idle);
  EXPECT_EQ(settings.send_bytes, 4194304u);
  EXPECT_EQ(settings.receive_bytes, 0u) << "there is no such file";
}

TEST(Tcp, IsJudgedIfAServerIsNotOnLoopback) {
  pb::Job job;
  job.add_servers()->set_address("127.0.0.1:7500");
  EXPECT_TRUE(CheckTcp(job).empty());
  job.add_servers()->set_address("192.0.2.1:7500");
  EXPECT_EQ(CheckTcp(job).size(), 1u);
}

TEST(GroupLimits, AreTheSmallestUpToTheRoot) {
  const FakeRoot root;
  root.Write("/proc/self/cgroup", "0::/slice/job\n");
  root.Write("/sys/fs/cgroup/slice/job/memory.max", "max\n");
  root.Write("/sys/fs/cgroup/slice/job/cpu.max", "150000 100000\n");
  root.Write("/sys/fs/cgroup/slice/memory.max", "4096000000\n");
  root.Write("/sys/fs/cgroup/slice/cpu.max", "max 100000\n");
  const GroupLimits limits = ReadGroupLimits(root.path());
  EXPECT_EQ(limits.memory_bytes, 4096000000u);
  EXPECT_EQ(limits.cpus, 1.5);
}

TEST(GroupLimits, OfVersion1AreReadAtTheMountIfTheGroupIsNotSeen) {
  const FakeRoot root;
  root.Write("/proc/self/cgroup", "5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n");
  root.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000000\n");
  root.Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  root.Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  const GroupLimits limits = ReadGroupLimits(root.path());
  EXPECT_EQ(limits.memory_bytes, 1000000000u);
  EXPECT_EQ(limits.cpus, 2.0);
}

TEST(GroupLimits, AreNoneWithoutFilesOrWithHugeNumbers) {
  const FakeRoot root;
  EXPECT_FALSE(ReadGroupLimits(root.path()).memory_bytes);
  root.Write("/proc/self/cgroup", "5:memory:/\n4:cpu:/\n");
  root.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  root.Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  root.Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(ReadGroupLimits(root.path()).memory_bytes);
  EXPECT_FALSE(ReadGroupLimits(root.path()).cpus);
}

TEST(Ports, AreFreeOrTakenByANamedProcess) {
  auto listener = net::TcpListener::Listen("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  const uint16_t port = (*listener)->port();
  const std::string holder = HolderOfPort(port);
  EXPECT_EQ(holder, Cat("tools_test (process ", getpid(), ")"));
  const Finding taken = CheckPort("port of server 0", "127.0.0.1", port);
  EXPECT_EQ(taken.grade, Grade::kBad);
  EXPECT_EQ(taken.code, Code::kAddress);
  EXPECT_THAT(taken.sentence, HasSubstr(Cat("127.0.0.1:", port, " is taken by ", holder)));
  listener->reset();
  EXPECT_EQ(CheckPort("port of server 0", "127.0.0.1", port).grade, Grade::kGood);
}

TEST(Ports, CannotBeBoundOnTheHostOfAnother) {
  const Finding finding = CheckPort("port of server 0", "192.0.2.1", 7500);  // RFC 5737
  EXPECT_EQ(finding.grade, Grade::kBad);
  EXPECT_THAT(finding.sentence, HasSubstr("the host is not an address of this machine"));
}

TEST(Links, FindTheRouteOfLoopback) {
  const Result<Route> route = FindRoute("127.0.0.1");
  ASSERT_TRUE(route.ok()) << route.status().message();
  EXPECT_EQ(route->interface, "lo");
  EXPECT_GE(route->mtu, 1500u);
  EXPECT_FALSE(FindRoute("not an address").ok());
}

TEST(Links, SeeAServer) {
  net::Context context;
  const auto server = net::RouterSocket::Bind(context, "127.0.0.1", 0, {});
  ASSERT_TRUE(server.ok()) << server.status().message();
  const Answer answer = AskServer("127.0.0.1", (*server)->port(), 30);
  EXPECT_EQ(answer.kind, Answer::kServer) << answer.reason;
  EXPECT_GT(answer.round_trip_s, 0);
}

TEST(Links, SeeNobodyAndAnotherProgram) {
  auto listener = net::TcpListener::Listen("127.0.0.1", 0);
  ASSERT_TRUE(listener.ok());
  const uint16_t port = (*listener)->port();
  EXPECT_EQ(AskServer("127.0.0.1", port, 0.1).kind, Answer::kOther) << "it says nothing";
  listener->reset();
  EXPECT_EQ(AskServer("127.0.0.1", port, 30).kind, Answer::kNobody);
}

// A socket whose queue of connections is full answers no more, like a host behind a firewall.
TEST(Links, SeeThatNobodyAnswers) {
  const File listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(listener.fd(), generic, size), 0);
  ASSERT_EQ(listen(listener.fd(), 0), 0);
  ASSERT_EQ(getsockname(listener.fd(), generic, &size), 0);
  std::vector<std::unique_ptr<File>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(
        std::make_unique<File>(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
    (void)connect(clients.back()->fd(), generic, size);
  }
  EXPECT_EQ(AskServer("127.0.0.1", ntohs(address.sin_port), 0.1).kind, Answer::kSilent);
}

TEST(Disks, AreMeasuredAndLeftAsTheyWere) {
  const FakeRoot root;
  const Result<DiskFacts> facts = MeasureDisk(root.path());
  ASSERT_TRUE(facts.ok()) << facts.status().message();
  EXPECT_GT(facts->bytes_s, 0);
  EXPECT_TRUE(std::filesystem::is_empty(root.path()));
  EXPECT_EQ(MeasureDisk(root.path() + "/none").status().code(), Code::kCannotWrite);
}

TEST(Members, AreTheServersOfThisMachineAndTheGivenWorkers) {
  pb::Job job;
  job.add_servers()->set_address("127.0.0.1:1");
  job.mutable_workers()->set_count(4);
  EXPECT_EQ(MembersText(*FindMembers(job, "")), "server 0, workers 0-3");
  job.add_servers()->set_address("192.0.2.1:1");
  EXPECT_EQ(MembersText(*FindMembers(job, "")), "server 0, worker 0");
  EXPECT_EQ(MembersText(*FindMembers(job, "1,2")), "server 0, workers 1-2");
  for (const char* bad : {"4", "x", "1-"}) {
    const auto members = FindMembers(job, bad);
    EXPECT_EQ(members.status().code(), Code::kUsage);
    EXPECT_THAT(members.status().message(),
                AllOf(HasSubstr(Cat("saw '", bad, "'")), HasSubstr("ranks from 0 to 3")));
  }
}

}  // namespace
}  // namespace tern::tools
