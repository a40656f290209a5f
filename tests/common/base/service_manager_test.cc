// Tests of ServiceManager against a socket in the place of systemd's.
#include "common/base/service_manager.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

namespace tern {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The manager's side. Its variables are in the environment until the destructor.
class FakeManager {
 public:
  // `name`: as NOTIFY_SOCKET has it.
  explicit FakeManager(const std::string& name) : name_(name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), length), 0);
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    setenv("WATCHDOG_USEC", "3000000", 1);
    setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  }
  ~FakeManager() {
    close(fd_);
    if (name_[0] == '/') unlink(name_.c_str());
    for (const char* variable : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
      unsetenv(variable);
  }
  FakeManager(const FakeManager&) = delete;
  FakeManager& operator=(const FakeManager&) = delete;

  // The next message; "" if none has come.
  std::string Take() const {
    std::array<char, 256> text{};
    const ssize_t length = recv(fd_, text.data(), text.size(), MSG_DONTWAIT);
    return length <= 0 ? "" : std::string(text.data(), static_cast<size_t>(length));
  }

 private:
  const std::string name_;
  const int fd_ = socket(AF_UNIX, SOCK_DGRAM, 0);
};

std::string SocketName() { return "@tern_service_manager_test_" + std::to_string(getpid()); }

TEST(ServiceManager, HearsThatTheProcessIsReadyOnceAndThatItEnds) {
  const FakeManager systemd(SocketName());
  ServiceManager manager = ServiceManager::FromEnvironment();
  manager.Ready();
  manager.Ready();
  manager.Stopping();
  EXPECT_EQ(systemd.Take(), "READY=1");
  EXPECT_EQ(systemd.Take(), "STOPPING=1");
  EXPECT_EQ(systemd.Take(), "");
}

TEST(ServiceManager, HearsThreeTimesInItsIntervalThatTheProcessIsAlive) {
  const FakeManager systemd(SocketName());
  ServiceManager manager = ServiceManager::FromEnvironment();
  EXPECT_EQ(manager.watchdog_interval(), seconds(3));
  int num_heard = 0;
  for (Time now = seconds(100); now < seconds(106); now += milliseconds(10)) {
    manager.Alive(now);
    if (const std::string text = systemd.Take(); !text.empty()) {
      EXPECT_EQ(text, "WATCHDOG=1");
      ++num_heard;
    }
  }
  EXPECT_EQ(num_heard, 6);
}

TEST(ServiceManager, WithoutItsWatchdogDoesNotHearThatTheProcessIsAlive) {
  const FakeManager systemd(SocketName());
  setenv("WATCHDOG_PID", "1", 1);  // the watchdog is for another process
  ServiceManager manager = ServiceManager::FromEnvironment();
  manager.Alive(seconds(100));
  EXPECT_EQ(manager.watchdog_interval(), Time::zero());
  EXPECT_EQ(systemd.Take(), "");
}

TEST(ServiceManager, ShowsANewStatusOnceASecond) {
  const FakeManager systemd(SocketName());
  ServiceManager manager = ServiceManager::FromEnvironment();
  manager.ShowStatus("step 1", seconds(100));
  EXPECT_EQ(systemd.Take(), "STATUS=step 1");
  manager.ShowStatus("step 2", seconds(100) + milliseconds(999));
  manager.ShowStatus("step 1", seconds(102));
  EXPECT_EQ(systemd.Take(), "");
  manager.ShowStatus("step 3", seconds(102));
  EXPECT_EQ(systemd.Take(), "STATUS=step 3");
}

TEST(ServiceManager, HasASocketWithAPath) {
  const FakeManager systemd(testing::TempDir() + "tern_notify." + std::to_string(getpid()));
  ServiceManager manager = ServiceManager::FromEnvironment();
  manager.Ready();
  EXPECT_EQ(systemd.Take(), "READY=1");
}

TEST(ServiceManager, ThatIsNotThereHearsNothing) {
  ServiceManager manager = ServiceManager::FromEnvironment();
  manager.Ready();
  manager.Alive(seconds(100));
  EXPECT_EQ(manager.watchdog_interval(), Time::zero());
}

TEST(ServiceManager, WhoseSocketCannotBeUsedIsNamed) {
  for (const char* name : {"vsock:2:1234", "/nowhere/notify", "@"}) {
    setenv("NOTIFY_SOCKET", name, 1);
    testing::internal::CaptureStderr();
    ServiceManager manager = ServiceManager::FromEnvironment();
    manager.Ready();
    EXPECT_NE(testing::internal::GetCapturedStderr().find(name), std::string::npos) << name;
  }
  unsetenv("NOTIFY_SOCKET");
}

TEST(ServiceManager, ThatDoesNotReadHoldsNothingUp) {
  const FakeManager systemd(SocketName());
  ServiceManager manager = ServiceManager::FromEnvironment();
  for (int times = 1; times < 10000; ++times) manager.Alive(seconds(3 * times));
  EXPECT_EQ(systemd.Take(), "WATCHDOG=1");
}

}  // namespace
}  // namespace tern
