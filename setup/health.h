// What a daemon answers to the probes of a cluster manager, on its metrics port:
//
//   /healthz  200 while the thread that decides turns, else 503 and for how long it has not
//   /readyz   200 once the daemon has bound its ports, has seen its peers, and takes part in the
//             job; before that 503 and for whom it waits
#pragma once

#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/net/http_server.h"

namespace tern::setup {

class Health {
 public:
  // Longer than a turn ever takes on a machine that is only busy.
  static constexpr Time kHealthyAge = std::chrono::seconds(10);

  // `thread`: the thread that calls OnTurn, for example "control thread". It ought to turn from now
  // on.
  explicit Health(std::string thread);

  // The thread turns. `now`: of Now(). `waiting_for`: what keeps the daemon from taking part, for
  // example "worker 1, worker 3"; empty if nothing does.
  void OnTurn(Time now, std::string waiting_for);

  // Adds the two routes, which any thread may call. This object outlives them.
  void AddRoutes(net::HttpRoutes* routes) const;

 private:
  net::HttpAnswer Alive() const;
  net::HttpAnswer Ready() const;

  const std::string thread_;
  mutable Mutex mutex_;
  Time turned_at_ TERN_GUARDED_BY(mutex_);
  std::string waiting_for_ TERN_GUARDED_BY(mutex_) = "its first turn";
};

}  // namespace tern::setup
