#include "common/net/http_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <list>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/event_fd.h"
#include "common/base/host_name.h"
#include "common/base/rate_limit.h"
#include "common/base/text.h"
#include "common/base/threads.h"
#include "common/net/tcp_listener.h"

namespace tern::net {
namespace {

constexpr size_t kMaxVisitors = 16;
// The library's memory for a connection: a request's line and headers, and an answer's headers.
constexpr size_t kVisitorBytes = 8192;
constexpr Time kTimeToStop = std::chrono::seconds(1);
// How long no client is accepted after the system refused to accept one (it has no descriptor).
constexpr Time kAcceptPause = std::chrono::milliseconds(100);
// Connections from one origin: 100 at once, and 20 a second in the long run. Further ones are
// reset, and then none is accepted for a while, because to be woken up for each of them costs more.
constexpr RateLimiter kVisits{100, std::chrono::milliseconds(50)};
constexpr Time kRefusalPause = std::chrono::milliseconds(2);
constexpr size_t kMaxKnownOrigins = 1024;

// The headers of every answer: name and value.
constexpr std::pair<const char*, const char*> kHeaders[] = {
    {MHD_HTTP_HEADER_CONNECTION, "close"},
    {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}};

bool IsSameName(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

// The name in a Host header: without port and brackets.
std::string NameInHost(std::string_view value) {
  if (value.starts_with('[')) {
    const size_t end = value.find(']');
    return std::string(value.substr(1, end == std::string_view::npos ? end : end - 1));
  }
  return std::string(value.substr(0, value.find(':')));
}

bool IsIpAddress(const std::string& name) {
  std::array<uint8_t, sizeof(in6_addr)> unused;
  return inet_pton(AF_INET, name.c_str(), unused.data()) == 1 ||
         inet_pton(AF_INET6, name.substr(0, name.find('%')).c_str(), unused.data()) == 1;
}

MHD_Result CollectHost(void* hosts, MHD_ValueKind, const char* key, const char* value) {
  if (strcasecmp(key, MHD_HTTP_HEADER_HOST) == 0)
    static_cast<std::vector<std::string>*>(hosts)->emplace_back(value == nullptr ? "" : value);
  return MHD_YES;
}

void SetOption(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}

// When the connection is closed, what was not sent yet is discarded.
void ResetAtClose(int fd) {
  const linger at_once{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

int Milliseconds(Time time) {
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(time).count());
}

}  // namespace

class HttpServer::Impl {
 public:
  Impl(std::string host, std::unique_ptr<TcpListener> listener, HttpRoutes routes,
       Time request_time)
      : host_(std::move(host)),
        listener_(std::move(listener)),
        routes_(std::move(routes)),
        request_time_(request_time) {}
  ~Impl() {
    is_stopping_ = true;
    wake_.Raise();
    thread_.Join();
    if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
  }

  Status Start() {
    // The library neither listens nor has a thread: Serve() accepts clients and runs it. Without
    // MHD_USE_ERROR_LOG it writes nothing about what clients do.
    daemon_ = MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, nullptr, nullptr,
                               &Impl::OnRequest, this,                                //
                               MHD_OPTION_CONNECTION_LIMIT, unsigned{kMaxVisitors},   //
                               MHD_OPTION_CONNECTION_MEMORY_LIMIT, kVisitorBytes,     //
                               MHD_OPTION_NOTIFY_CONNECTION, &Impl::OnVisitor, this,  //
                               MHD_OPTION_END);
    if (daemon_ == nullptr || wake_.fd() < 0) {
      return Status(Code::kInternal,
                    "cannot serve HTTP: no file descriptor or no memory is left; raise the "
                    "limit of open files (ulimit -n)");
    }
    thread_ = Thread("http", [this] { Serve(); });
    return Ok();
  }

  uint16_t port() const { return listener_->port(); }

 private:
  // A client that is connected.
  struct Visitor {
    int fd = -1;
    Origin origin{};
    Time deadline{};
    bool is_answered = false;  // The library has its answer and sends it.
  };

  void Serve();
  void Wait();
  void AcceptVisitors();
  bool MayVisit(const Origin& origin);
  // Closes a connection: MHD_run then calls OnVisitor.
  void Cut(const Visitor& visitor);
  void CutTheMostFrequent();
  void CutTheLate();
  // Whether nothing is left to do.
  bool HasStopped();
  HttpAnswer Answer(MHD_Connection* connection, std::string_view path, std::string_view method);
  bool IsOwnHost(const std::vector<std::string>& hosts) const;

  // What libmicrohttpd calls, on the server's thread.
  static MHD_Result OnRequest(void* impl, MHD_Connection* connection, const char* path,
                              const char* method, const char* version, const char* upload,
                              size_t* upload_bytes, void** request);
  static void OnVisitor(void* impl, MHD_Connection* connection, void** visitor,
                        MHD_ConnectionNotificationCode event);

  const std::string host_;
  const std::unique_ptr<TcpListener> listener_;
  const HttpRoutes routes_;
  const Time request_time_;
  MHD_Daemon* daemon_ = nullptr;
  EventFd wake_;
  std::atomic<bool> is_stopping_{false};
  // Of the server's thread only:
  std::list<Visitor> visitors_;  // the oldest first
  Visitor newcomer_;             // whom MHD_add_connection is about to report
  std::map<Origin, RateLimiter> visits_;
  Time no_accept_before_{};
  Time stop_deadline_{};  // zero until the thread sees is_stopping_
  Thread thread_;
};

void HttpServer::Impl::Serve() {
  while (!HasStopped()) {
    Wait();
    if (!is_stopping_) AcceptVisitors();
    CutTheLate();
    MHD_run(daemon_);
  }
}

bool HttpServer::Impl::HasStopped() {
  if (!is_stopping_) return false;
  if (stop_deadline_ == Time{}) stop_deadline_ = Now() + kTimeToStop;
  return Now() >= stop_deadline_ ||
         std::none_of(visitors_.begin(), visitors_.end(),
                      [](const Visitor& visitor) { return visitor.is_answered; });
}

void HttpServer::Impl::Wait() {
  const int library_fd = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
  const Time now = Now();
  const bool is_pausing = now < no_accept_before_;
  std::array<pollfd, 3> fds = {pollfd{library_fd, POLLIN, 0}, pollfd{listener_->fd(), POLLIN, 0},
                               pollfd{wake_.fd(), POLLIN, 0}};
  if (is_pausing || is_stopping_) fds[1].fd = -1;  // poll() ignores it.
  if (is_stopping_) fds[2].fd = -1;
  Time timeout = Time::max();
  if (is_pausing) timeout = no_accept_before_ - now;
  if (is_stopping_) timeout = std::min(timeout, std::max(stop_deadline_ - now, Time{}));
  for (const Visitor& visitor : visitors_)
    timeout = std::min(timeout, std::max(visitor.deadline - now, Time{}));
  MHD_UNSIGNED_LONG_LONG library_ms = 0;
  if (MHD_get_timeout(daemon_, &library_ms) == MHD_YES)
    timeout = std::min<Time>(timeout, std::chrono::milliseconds(library_ms));
  poll(fds.data(), fds.size(), timeout == Time::max() ? -1 : Milliseconds(timeout));
}

void HttpServer::Impl::AcceptVisitors() {
  if (Now() < no_accept_before_) return;
  // Half of the places at most, so that a newcomer's request is read before another newcomer takes
  // its place.
  for (size_t i = 0; i < kMaxVisitors / 2; ++i) {
    const std::optional<TcpListener::Client> client = listener_->Accept();
    if (!client.has_value()) {
      const bool is_system_full =
          errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (is_system_full) no_accept_before_ = Now() + kAcceptPause;
      return;
    }
    if (!MayVisit(client->origin)) {
      ResetAtClose(client->fd);
      close(client->fd);
      no_accept_before_ = Now() + kRefusalPause;
      continue;
    }
    if (visitors_.size() >= kMaxVisitors) CutTheMostFrequent();
    newcomer_ = {client->fd, client->origin, Now() + request_time_, false};
    // The system, too, gives up on a client that does not take the rest of its answer.
    SetOption(client->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, Milliseconds(request_time_));
    sockaddr_storage unused{};
    unused.ss_family = AF_INET;
    // The library closes the connection if it cannot take it.
    MHD_add_connection(daemon_, client->fd, reinterpret_cast<sockaddr*>(&unused),
                       sizeof(sockaddr_in));
  }
}

bool HttpServer::Impl::MayVisit(const Origin& origin) {
  if (visits_.size() >= kMaxKnownOrigins && !visits_.contains(origin)) visits_.clear();
  return visits_.try_emplace(origin, kVisits).first->second.Allow(Now());
}

void HttpServer::Impl::Cut(const Visitor& visitor) {
  ResetAtClose(visitor.fd);
  shutdown(visitor.fd, SHUT_RDWR);
}

void HttpServer::Impl::CutTheMostFrequent() {
  std::map<Origin, int> connections;
  for (const Visitor& visitor : visitors_) ++connections[visitor.origin];
  const auto oldest_of_most =
      std::max_element(visitors_.begin(), visitors_.end(), [&](const Visitor& a, const Visitor& b) {
        return connections[a.origin] < connections[b.origin];
      });
  Cut(*oldest_of_most);
  MHD_run(daemon_);
}

void HttpServer::Impl::CutTheLate() {
  const Time now = Now();
  for (const Visitor& visitor : visitors_)
    if (now >= visitor.deadline) Cut(visitor);
}

bool HttpServer::Impl::IsOwnHost(const std::vector<std::string>& hosts) const {
  if (hosts.size() != 1) return false;
  const std::string name = NameInHost(hosts.front());
  return IsIpAddress(name) || IsSameName(name, "localhost") || IsSameName(name, host_) ||
         IsSameName(name, HostName());
}

HttpAnswer HttpServer::Impl::Answer(MHD_Connection* connection, std::string_view path,
                                    std::string_view method) {
  std::vector<std::string> hosts;
  MHD_get_connection_values(connection, MHD_HEADER_KIND, &CollectHost, &hosts);
  if (!IsOwnHost(hosts)) {
    return {MHD_HTTP_FORBIDDEN,
            "The header Host has to be an IP address, localhost, this machine's name or the job's "
            "metrics.host.\n"};
  }
  const auto route = routes_.find(path);
  if (route == routes_.end()) {
    std::vector<std::string> paths;
    for (const auto& [known_path, answer] : routes_) paths.push_back(known_path);
    return {MHD_HTTP_NOT_FOUND, "There is no such path; known: " + Join(paths) + "\n"};
  }
  if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD)
    return {MHD_HTTP_METHOD_NOT_ALLOWED, "This can only be read: GET or HEAD.\n"};
  return route->second();
}

MHD_Result HttpServer::Impl::OnRequest(void* impl, MHD_Connection* connection, const char* path,
                                       const char* method, const char*, const char*, size_t*,
                                       void**) {
  auto& server = *static_cast<Impl*>(impl);
  // The answer does not wait for a body: the library then closes the connection without reading it.
  HttpAnswer answer = server.Answer(connection, path, method);
  MHD_Response* response = MHD_create_response_from_buffer(answer.body.size(), answer.body.data(),
                                                           MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, answer.content_type.c_str());
  for (const auto& [name, value] : kHeaders) MHD_add_response_header(response, name, value);
  if (answer.status == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  const MHD_Result result = MHD_queue_response(connection, answer.status, response);
  MHD_destroy_response(response);
  const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  static_cast<Visitor*>(info->socket_context)->is_answered = true;
  return result;
}

void HttpServer::Impl::OnVisitor(void* impl, MHD_Connection*, void** visitor,
                                 MHD_ConnectionNotificationCode event) {
  auto& server = *static_cast<Impl*>(impl);
  if (event == MHD_CONNECTION_NOTIFY_STARTED) {
    *visitor = &server.visitors_.emplace_back(server.newcomer_);
  } else {
    server.visitors_.remove_if([&](const Visitor& each) { return &each == *visitor; });
  }
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& host, uint16_t port,
                                                      HttpRoutes routes, Time request_time) {
  auto listener = TcpListener::Listen(host, port);
  if (!listener.ok()) return listener.status().Within("metrics.port");
  auto impl = std::make_unique<Impl>(host, std::move(*listener), std::move(routes), request_time);
  if (Status status = impl->Start(); !status.ok()) return status;
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

uint16_t HttpServer::port() const { return impl_->port(); }

}  // namespace tern::net
