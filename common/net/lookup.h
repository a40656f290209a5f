// Looks up the addresses of a host without making anybody wait: name servers may take seconds, and
// heartbeats must not wait for them. Asks again until there is an answer, because names of machines
// that start together may come late. Used by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tern::net {

// As Resolve (address.h). Called in a thread of its own.
using Resolver = std::function<Result<std::vector<std::string>>(const std::string& host)>;

class Lookup {
 public:
  // How often a host that does not resolve is looked up again.
  static constexpr Time kRetry = std::chrono::seconds(1);

  // `resolver` empty: Resolve.
  explicit Lookup(std::string host, Resolver resolver = {});
  // Does not wait for a question that is open.
  ~Lookup();
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  // The host's numeric addresses; empty: there is no answer yet, so call again. Never waits. The
  // first call asks. A numeric host is its own address.
  const std::vector<std::string>& Poll(Time now);
  // The next Poll asks anew: the host may have got another address.
  void Forget();

  const std::string& host() const { return host_; }
  // Why the host does not resolve, as the newest answer says: a sentence. Empty if it does.
  const std::string& failure() const { return failure_; }

 private:
  struct Question;
  void Ask();

  const std::string host_;
  const Resolver resolver_;
  std::shared_ptr<Question> question_;  // the one that is open; null: none. Shared with its thread
  std::vector<std::string> addresses_;
  std::string failure_;
  Time ask_at_{};
};

}  // namespace tern::net
