#include "common/net/metrics_page.h"

#include <httplib.h>

#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "common/base/logging.h"
#include "common/base/text.h"
#include "common/base/threads.h"
#include "common/net/address.h"

namespace tern::net {
namespace {

constexpr int kNumThreads = 2;
constexpr size_t kMaxRequestBytes = 4096;

// Limits the server to two threads and short timeouts, so that slow clients cannot use more
// threads.
void SetLimits(httplib::Server* server) {
  server->new_task_queue = [] { return new httplib::ThreadPool(kNumThreads); };
  server->set_keep_alive_max_count(1);
  server->set_read_timeout(2);
  server->set_write_timeout(2);
  server->set_payload_max_length(kMaxRequestBytes);
  // The library's default would share a port with other processes instead of reporting that the
  // port is in use.
  server->set_socket_options([](socket_t socket) {
    const int enabled = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &enabled, sizeof enabled);
  });
}

}  // namespace

struct MetricsPage::Impl {
  httplib::Server server;
  uint16_t port = 0;
  std::atomic<bool> has_ended{false};
  Thread thread;

  void Serve() {
    try {
      server.listen_after_bind();
    } catch (const std::exception& e) {
      LOG(ERROR) << "the metrics page has stopped: " << e.what();
    }
    has_ended = true;
  }

  ~Impl() {
    server.stop();
    thread.Join();
  }
};

Result<std::unique_ptr<MetricsPage>> MetricsPage::Start(const std::string& host, uint16_t port,
                                                        std::function<std::string()> text) {
  const auto addresses = Resolve(host == "*" ? "::" : host);
  if (!addresses.ok()) return addresses.status();
  const std::string address_text = ToString(Address{host, port});
  try {
    auto impl = std::make_unique<Impl>();
    httplib::Server& server = impl->server;
    SetLimits(&server);
    server.Get("/metrics", [text = std::move(text)](const httplib::Request&, httplib::Response& r) {
      r.set_content(text(), "text/plain; version=0.0.4; charset=utf-8");
    });
    const std::string& numeric_host = addresses->front();
    const int bound_port = port == 0 ? server.bind_to_any_port(numeric_host)
                           : server.bind_to_port(numeric_host, port) ? port
                                                                     : -1;
    if (bound_port <= 0) {
      return Status(Code::kAddress, Cat("cannot serve metrics on ", address_text,
                                        ": the port is in use, or the host is not an address of "
                                        "this machine; choose another"));
    }
    impl->port = static_cast<uint16_t>(bound_port);
    impl->thread = Thread("metrics", [i = impl.get()] { i->Serve(); });
    // httplib's stop() has no effect before the server runs, so wait until it does.
    while (!server.is_running() && !impl->has_ended) std::this_thread::yield();
    return std::unique_ptr<MetricsPage>(new MetricsPage(std::move(impl)));
  } catch (const std::exception& e) {
    return Status(Code::kAddress, Cat("cannot serve metrics on ", address_text, ": ", e.what()));
  }
}

MetricsPage::MetricsPage(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsPage::~MetricsPage() = default;

uint16_t MetricsPage::port() const { return impl_->port; }

}  // namespace tern::net
