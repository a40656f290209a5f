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
  bool is_ready = false;
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
                     [key](const Entry<T>& entry) { return entry.key == key && entry.is_ready; });
}

zmq_pollitem_t MakePollItem(void* socket, int fd) { return {socket, fd, ZMQ_POLLIN, 0}; }

long ToMilliseconds(Time timeout) {
  if (timeout < Time::zero()) return -1;
  // A day is long enough, and fits into every integer type used here.
  const Time capped_timeout = std::min<Time>(timeout, std::chrono::hours(24));
  return static_cast<long>(std::chrono::ceil<std::chrono::milliseconds>(capped_timeout).count());
}

}  // namespace

struct Poller::Items {
  std::vector<Entry<RouterSocket*>> routers;
  std::vector<Entry<DealerSocket*>> dealers;
  std::vector<Entry<int>> fds;
  // Used only within Wait; a member so that its memory is reused.
  std::vector<zmq_pollitem_t> poll_items;
};

Poller::Poller() : items_(std::make_unique<Items>()) {}
Poller::~Poller() = default;

void Poller::Add(RouterSocket* socket) { AddTo(&items_->routers, socket); }
void Poller::Add(DealerSocket* socket) { AddTo(&items_->dealers, socket); }
void Poller::AddFd(int fd) { AddTo(&items_->fds, fd); }
void Poller::Remove(RouterSocket* socket) { RemoveFrom(&items_->routers, socket); }
void Poller::Remove(DealerSocket* socket) { RemoveFrom(&items_->dealers, socket); }
void Poller::RemoveFd(int fd) { RemoveFrom(&items_->fds, fd); }

bool Poller::WasReady(const RouterSocket* socket) const { return IsReady(items_->routers, socket); }
bool Poller::WasReady(const DealerSocket* socket) const { return IsReady(items_->dealers, socket); }
bool Poller::WasFdReady(int fd) const { return IsReady(items_->fds, fd); }

Status Poller::Wait(Time timeout) {
  Items& items = *items_;
  for (auto& entry : items.routers) entry.is_ready = false;
  for (auto& entry : items.dealers) entry.is_ready = false;
  for (auto& entry : items.fds) entry.is_ready = false;

  // A closed socket has no handle, and a dealer whose connection was lost has no monitor. Each
  // handle, monitor and descriptor that exists gets a poll item, in the order of the entries; a
  // dealer's monitor follows the dealer's handle.
  std::vector<zmq_pollitem_t>& poll_items = items.poll_items;
  poll_items.clear();
  for (const auto& entry : items.routers) {
    if (void* handle = entry.key->impl_->handle()) poll_items.push_back(MakePollItem(handle, 0));
  }
  for (const auto& entry : items.dealers) {
    if (void* handle = entry.key->impl_->handle()) poll_items.push_back(MakePollItem(handle, 0));
    if (void* monitor = entry.key->impl_->monitor()) poll_items.push_back(MakePollItem(monitor, 0));
  }
  for (const auto& entry : items.fds) {
    if (entry.key < 0) {
      return Status(Code::kInternal, Cat("cannot wait for file descriptor ", entry.key,
                                         ": the process is out of them; raise ulimit -n"));
    }
    poll_items.push_back(MakePollItem(nullptr, entry.key));
  }
  // A dealer socket reconnects in a call of link(). If the socket waits to reconnect, its waiting
  // time limits the timeout, so that the next call is not later than the end of that time.
  for (const auto& entry : items.dealers) {
    if (!entry.key->retry_at_) continue;
    const Time waiting_time = std::max(*entry.key->retry_at_ - Now(), Time::zero());
    timeout = timeout < Time::zero() ? waiting_time : std::min(timeout, waiting_time);
  }
  if (zmq_poll(poll_items.data(), static_cast<int>(poll_items.size()), ToMilliseconds(timeout)) <
      0) {
    if (zmq_errno() == EINTR) return Ok();
    return Status(Code::kInternal, Cat("waiting for sockets failed: ", ZmqError()));
  }

  const zmq_pollitem_t* next_item = poll_items.data();
  for (auto& entry : items.routers) {
    if (entry.key->impl_->handle()) entry.is_ready = next_item++->revents != 0;
  }
  for (auto& entry : items.dealers) {
    const bool has_monitor = entry.key->impl_->monitor() != nullptr;
    if (entry.key->impl_->handle()) entry.is_ready = next_item++->revents != 0;
    if (has_monitor) ++next_item;
    const auto old_link = entry.key->link_;
    entry.is_ready |= entry.key->link() != old_link;
  }
  for (auto& entry : items.fds) entry.is_ready = next_item++->revents != 0;
  return Ok();
}

}  // namespace tern::net
