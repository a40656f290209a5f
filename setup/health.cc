#include "setup/health.h"

#include <utility>

#include "common/base/text.h"

namespace tern::setup {

Health::Health(std::string thread) : thread_(std::move(thread)), turned_at_(Now()) {}

void Health::OnTurn(Time now, std::string waiting_for) {
  const MutexLock lock(mutex_);
  turned_at_ = now;
  waiting_for_ = std::move(waiting_for);
}

void Health::AddRoutes(net::HttpRoutes* routes) const {
  (*routes)["/healthz"] = [this] { return Alive(); };
  (*routes)["/readyz"] = [this] { return Ready(); };
}

net::HttpAnswer Health::Alive() const {
  const MutexLock lock(mutex_);
  const Time age = Now() - turned_at_;
  if (age < kHealthyAge) return {200, "ok\n"};
  return {503, Cat("the ", thread_, " has not turned for ", HumanTime(age), "\n")};
}

net::HttpAnswer Health::Ready() const {
  const MutexLock lock(mutex_);
  if (waiting_for_.empty()) return {200, "ready\n"};
  return {503, Cat("waiting for ", waiting_for_, "\n")};
}

}  // namespace tern::setup
