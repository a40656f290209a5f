// Waits for sockets and file descriptors together. Belongs to the thread of its sockets.
#pragma once

#include <memory>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/net/socket.h"

namespace tern::net {

class Poller {
 public:
  Poller();
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // The poller does not own what is added; the caller removes a socket or descriptor before its
  // destruction. A DealerSocket also becomes ready when its link() changes, so that a lost
  // connection ends Wait() at once.
  void Add(RouterSocket* socket);
  void Add(DealerSocket* socket);
  void AddFd(int fd);
  void Remove(RouterSocket* socket);
  void Remove(DealerSocket* socket);
  void RemoveFd(int fd);

  // Waits until something is ready or `timeout` has passed (rounded up to a millisecond; negative:
  // no timeout). May return early with nothing ready. kInternal: a descriptor is negative, or the
  // system call fails.
  Status Wait(Time timeout);

  // Whether the socket or descriptor was ready at the last Wait; false if it was not added.
  bool WasReady(const RouterSocket* socket) const;
  bool WasReady(const DealerSocket* socket) const;
  bool WasFdReady(int fd) const;

 private:
  struct Items;
  const std::unique_ptr<Items> items_;
};

}  // namespace tern::net
