// An HTTP server for a process's metrics, for Prometheus and browsers: GET /metrics.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"

namespace tern::net {

class MetricsPage {
 public:
  // Serves the result of `text()` at host:port; with port 0 the system picks a free port. Threads
  // of the page call `text` for every request. kAddress: the port is in use, or the host is not an
  // address of this machine. Makes the process ignore SIGPIPE.
  static Result<std::unique_ptr<MetricsPage>> Start(const std::string& host, uint16_t port,
                                                    std::function<std::string()> text);
  // Stops the server. Waits for requests in progress, a few seconds at most.
  ~MetricsPage();

  uint16_t port() const;

 private:
  struct Impl;
  explicit MetricsPage(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tern::net
