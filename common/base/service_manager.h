// Tells the service manager that started this process (systemd, or a container's) how it is, by
// datagrams as in sd_notify(3): that it is ready, that it is alive, what it does, that it ends.
#pragma once

#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tern {

// One thread uses it. No function waits for the manager; without a manager none has an effect.
class ServiceManager {
 public:
  // No manager.
  ServiceManager() = default;
  // The manager that the variables NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID name. If its
  // socket cannot be used, logs that and returns none.
  static ServiceManager FromEnvironment();
  ~ServiceManager();
  ServiceManager(ServiceManager&& other) noexcept;
  ServiceManager& operator=(ServiceManager&&) = delete;

  // How long the manager bears not to hear from this process; zero: as long as it takes.
  Time watchdog_interval() const { return watchdog_interval_; }
  // From now on, the manager counts this process as started. Repeated calls have no effect.
  void Ready();
  // Call regularly while all threads work, with the clock of Now(): says so as often as the manager
  // needs it.
  void Alive(Time now);
  // What the process does, for people: "step 1200 of 5000, 4 of 4 workers". Sent once a second at
  // most, and only if it is new.
  void ShowStatus(const std::string& text, Time now);
  // This process has done its work and ends.
  void Stopping();

 private:
  // Returns whether the manager's socket took the message.
  bool Send(const std::string& message);

  int fd_ = -1;  // a socket that is connected to the manager's; -1: no manager
  Time watchdog_interval_{};
  bool is_ready_ = false;
  Time alive_at_{}, shown_at_{};  // when that was last sent; zero: never
  std::string shown_text_;
};

}  // namespace tern
