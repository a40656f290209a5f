#include "common/net/poller.h"

#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "common/net/socket_impl.h"

namespace tern::net {
namespace {

// A socket or file descriptor that was added to the poller (`key`), and its state at the last Wait.
template <typename T>
struct Entry {
  T key;
  bool ready = false;
};

template <typename T>
void AddTo(std::vector<Entry<T>>* entries, T key) {
  for (const Entry<T>& entry : *entries) {
    if (entry.key == key) return;
  }
  entries->push_back({key});
}

template <typename T>
void RemoveFrom(std::vector<Entry<T>>* entries, T key) {
  std::erase_if(*entries, [key](const Entry<T>& entry) { return entry.key == key; });
}

template <typename T, typename K>
bool IsReady(const std::vector<Entry<T>>& entries, K key) {
  return std::any_of(entries.begin(), entries.end(),
                     [key](const Entry<T>& entry) { return entry.key == key && entry.ready; });
}

zmq_pollitem_t PollItem(void* socket, int fd) { return {socket, fd, ZMQ_POLLIN, 0}; }

long Milliseconds(Time timeout) {
  if (timeout < Time::zero()) return -1;
  // A day is long enough, and fits into every integer type used here.
  const Time capped = std::min<Time>(timeout, std::chrono::hours(24));
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(capped).count());
}

}  // namespace

struct Poller::Items {
  std::vector<Entry<RouterSocket*>> routers;
  std::vector<Entry<DealerSocket*>> dealers;
  std::vector<Entry<int>> fds;
  // Used only within Wait; a member so that its memory is reused.
  std::vector<zmq_pollitem_t> poll;
};

Poller::Poller() : items_(std::make_unique<Items>()) {}
Poller::~Poller() = default;

void Poller::Add(RouterSocket* socket) { AddTo(&items_->routers, socket); }
void Poller::Add(DealerSocket* socket) { AddTo(&items_->dealers, socket); }
void Poller::AddFd(int fd) { AddTo(&items_->fds, fd); }
void Poller::Remove(RouterSocket* socket) { RemoveFrom(&items_->routers, socket); }
void Poller::Remove(DealerSocket* socket) { RemoveFrom(&items_->dealers, socket); }
void Poller::RemoveFd(int fd) { RemoveFrom(&items_->fds, fd); }

bool Poller::Ready(const RouterSocket* socket) const { return IsReady(items_->routers, socket); }
bool Poller::Ready(const DealerSocket* socket) const { return IsReady(items_->dealers, socket); }
bool Poller::ReadyFd(int fd) const { return IsReady(items_->fds, fd); }

Status Poller::Wait(Time timeout) {
  Items& items = *items_;
  for (auto& e : items.routers) e.ready = false;
  for (auto& e : items.dealers) e.ready = false;
  for (auto& e : items.fds) e.ready = false;

  // A closed socket has no handle, and a dealer whose connection was lost has no monitor; neither
  // gets a poll item. Poll items are in the order of the entries; a dealer's monitor follows the
  // dealer.
  std::vector<zmq_pollitem_t>& poll = items.poll;
  poll.clear();
  for (const auto& e : items.routers) {
    if (void* handle = e.key->impl_->handle()) poll.push_back(PollItem(handle, 0));
  }
  for (const auto& e : items.dealers) {
    if (void* handle = e.key->impl_->handle()) poll.push_back(PollItem(handle, 0));
    if (void* monitor = e.key->impl_->monitor()) poll.push_back(PollItem(monitor, 0));
  }
  for (const auto& e : items.fds) {
    if (e.key < 0) {
      return Status(Code::kInternal, Cat("cannot wait for file descriptor ", e.key,
                                         ": the process is out of them; raise ulimit -n"));
    }
    poll.push_back(PollItem(nullptr, e.key));
  }
  // A dealer that waits to reconnect must be called when its waiting time ends, so that time limits
  // the timeout.
  for (const auto& e : items.dealers) {
    if (!e.key->retry_at_) continue;
    const Time until = std::max(*e.key->retry_at_ - Now(), Time::zero());
    timeout = timeout < Time::zero() ? until : std::min(timeout, until);
  }
  if (zmq_poll(poll.data(), static_cast<int>(poll.size()), Milliseconds(timeout)) < 0) {
    if (zmq_errno() == EINTR) return Ok();
    return Status(Code::kInternal, Cat("waiting for sockets failed: ", ZmqError()));
  }

  const zmq_pollitem_t* item = poll.data();
  for (auto& e : items.routers) {
    if (e.key->impl_->handle()) e.ready = item++->revents != 0;
  }
  for (auto& e : items.dealers) {
    const bool has_monitor = e.key->impl_->monitor() != nullptr;
    if (e.key->impl_->handle()) e.ready = item++->revents != 0;
    if (has_monitor) ++item;
    const auto old_link = e.key->link_;
    e.ready |= e.key->link() != old_link;
  }
  for (auto& e : items.fds) e.ready = item++->revents != 0;
  return Ok();
}

}  // namespace tern::net
