#include "common/base/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"

namespace tern {
namespace {

std::string_view Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? std::string_view() : value;
}

// Returns 0 for anything but a whole number.
long NumberIn(std::string_view text) {
  long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

// Connects a socket to "/path", or to "@name" in the kernel's own space of names. -1 and errno if
// that is not possible.
int ConnectTo(std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if ((name[0] != '/' && name[0] != '@') || name.size() >= sizeof address.sun_path) {
    errno = EINVAL;
    return -1;
  }
  std::memcpy(address.sun_path, name.data(), name.size());
  if (name[0] == '@') address.sun_path[0] = '\0';
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

}  // namespace

ServiceManager ServiceManager::FromEnvironment() {
  ServiceManager manager;
  const std::string_view name = Variable("NOTIFY_SOCKET");
  if (name.empty()) return manager;
  manager.fd_ = ConnectTo(name);
  if (manager.fd_ < 0) {
    LOG(WARNING) << "the service manager hears nothing of this process: NOTIFY_SOCKET is '"
                 << Printable(name) << "': " << std::strerror(errno)
                 << "; expected the path of a datagram socket, or @ and a name";
  }
  const long pid = NumberIn(Variable("WATCHDOG_PID"));
  if (pid == 0 || pid == getpid())
    manager.watchdog_interval_ = std::chrono::microseconds(NumberIn(Variable("WATCHDOG_USEC")));
  return manager;
}

ServiceManager::ServiceManager(ServiceManager&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      watchdog_interval_(other.watchdog_interval_),
      is_ready_(other.is_ready_),
      alive_at_(other.alive_at_),
      shown_at_(other.shown_at_),
      shown_text_(std::move(other.shown_text_)) {}

ServiceManager::~ServiceManager() {
  if (fd_ >= 0) close(fd_);
}

void ServiceManager::Ready() {
  if (!is_ready_) is_ready_ = Send("READY=1");
}

// Three times in the interval, so that one message may come late.
void ServiceManager::Alive(Time now) {
  if (watchdog_interval_ <= Time::zero() || now - alive_at_ < watchdog_interval_ / 3) return;
  if (Send("WATCHDOG=1")) alive_at_ = now;
}

void ServiceManager::ShowStatus(const std::string& text, Time now) {
  if (text == shown_text_ || now - shown_at_ < std::chrono::seconds(1)) return;
  if (!Send("STATUS=" + text)) return;
  shown_text_ = text;
  shown_at_ = now;
}

void ServiceManager::Stopping() { Send("STOPPING=1"); }

bool ServiceManager::Send(const std::string& message) {
  return fd_ >= 0 && send(fd_, message.data(), message.size(), MSG_NOSIGNAL) >= 0;
}

}  // namespace tern
