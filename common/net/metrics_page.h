// An HTTP server for a process's metrics, for Prometheus and browsers: GET /metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tern::net {

// Whoever reaches the port may send what it likes, so a page costs a bounded amount: one thread, 16
// connections, 8 KiB and one answer each. A client has 5 seconds from its connection to the last
// byte of its answer. If 16 are connected, a new client takes the place of the oldest connection of
// the address that has the most, so one address cannot keep others out. One address may open 100
// connections at once, and 20 a second in the long run.
//
// The header Host must name an IP address, localhost, this machine or the page's own host: a web
// site whose name leads to this address cannot read the page with somebody's browser.
class MetricsPage {
 public:
  // From a client's connection to the last byte of its answer.
  static constexpr Time kRequestTime = std::chrono::seconds(5);

  // Serves the result of `text()` at host:port; with port 0 the system picks a free port. The
  // page's thread calls `text` for every request. kAddress: the port is in use, or the host is not
  // an address of this machine. kInternal: the process is out of file descriptors or memory.
  static Result<std::unique_ptr<MetricsPage>> Start(const std::string& host, uint16_t port,
                                                    std::function<std::string()> text,
                                                    Time request_time = kRequestTime);
  // Stops the server. Waits for answers that are being sent, a second at most.
  ~MetricsPage();

  uint16_t port() const;

 private:
  class Impl;
  explicit MetricsPage(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tern::net
