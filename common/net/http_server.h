// A small HTTP server for a process's metrics and status, for Prometheus, browsers and probes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tern::net {

struct HttpAnswer {
  unsigned status = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
};
// What makes the answer, by path ("/metrics").
using HttpRoutes = std::map<std::string, std::function<HttpAnswer()>, std::less<>>;

// Whoever reaches the port may send what it likes, so the server costs a bounded amount, whatever
// the route: one thread, 16 connections, 8 KiB and one answer each. A client has 5 seconds from its
// connection to the last byte of its answer. If 16 are connected, a new client takes the place of
// the oldest connection of the address that has the most, so one address cannot keep others out.
// One address may open 100 connections at once, and 20 a second in the long run.
//
// The header Host must name an IP address, localhost, this machine or the server's own host: a web
// site whose name leads to this address cannot read the answers with somebody's browser. Browsers
// are told that a page of this server may load scripts, styles and data from this server alone
// (Content-Security-Policy), and that no other site may show or embed it.
class HttpServer {
 public:
  // From a client's connection to the last byte of its answer.
  static constexpr Time kRequestTime = std::chrono::seconds(5);

  // Serves GET and HEAD of `routes` at host:port; with port 0 the system picks a free port. The
  // server's thread calls a route for every request of its path. kAddress: the port is in use, or
  // the host is not an address of this machine. kInternal: the process is out of file descriptors
  // or memory.
  static Result<std::unique_ptr<HttpServer>> Start(const std::string& host, uint16_t port,
                                                   HttpRoutes routes,
                                                   Time request_time = kRequestTime);
  // Stops the server. Waits for answers that are being sent, a second at most.
  ~HttpServer();

  uint16_t port() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tern::net
