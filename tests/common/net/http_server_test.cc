// Tests of the HTTP server that serves the metrics and the status of a process.
#include "common/net/http_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "common/base/host_name.h"
#include "tests/common/net/net_testing.h"

namespace tern::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A connection to the page from the loopback address `from`.
class HttpClient {
 public:
  explicit HttpClient(uint16_t port, const std::string& from = "127.0.0.1")
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in own = AddressOf(from, 0);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&own), sizeof own), 0);
    sockaddr_in page = AddressOf("127.0.0.1", port);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&page), sizeof page), 0);
  }
  ~HttpClient() { close(fd_); }
  HttpClient(const HttpClient&) = delete;

  // Returns whether the connection was still open.
  bool Send(const std::string& bytes) {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Receives until the page closes the connection.
  std::string ReadAll() {
    std::string answer;
    char buffer[4096];
    for (ssize_t n; (n = recv(fd_, buffer, sizeof buffer, 0)) > 0;) answer.append(buffer, n);
    return answer;
  }
  // Waits until the page cuts the connection, without reading from it.
  bool WaitUntilCut() {
    pollfd cut{fd_, 0, 0};  // POLLERR and POLLHUP are always reported.
    return poll(&cut, 1, static_cast<int>(kPatience / std::chrono::milliseconds(1))) == 1;
  }

 private:
  static sockaddr_in AddressOf(const std::string& host, uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    inet_pton(AF_INET, host.c_str(), &address.sin_addr);
    return address;
  }
  const int fd_;
};

std::unique_ptr<HttpServer> StartPage(const std::string& text = "x",
                                      Time request_time = HttpServer::kRequestTime) {
  return Value(HttpServer::Start("127.0.0.1", 0,
                                 {{"/metrics",
                                   [text] {
                                     return HttpAnswer{200, text};
                                   }}},
                                 request_time));
}

// Returns the whole HTTP answer to a request.
std::string Answer(uint16_t port, const std::string& request,
                   const std::string& from = "127.0.0.1") {
  HttpClient client(port, from);
  EXPECT_TRUE(client.Send(request));
  return client.ReadAll();
}

std::string Get(const std::string& path, const std::string& host = "127.0.0.1") {
  return "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
}

TEST(HttpServer, ServesTheCurrentText) {
  std::atomic<int> num_calls{0};
  const HttpRoutes routes = {
      {"/",
       [] {
         return HttpAnswer{200, "<p>", "text/html"};
       }},
      {"/metrics",
       [&] {
         return HttpAnswer{200, "tern_calls " + std::to_string(++num_calls) + "\n"};
       }},
      {"/readyz", [] {
         return HttpAnswer{503, "not ready\n"};
       }}};
  const auto page = Value(HttpServer::Start("127.0.0.1", 0, routes));
  ASSERT_NE(page->port(), 0);
  EXPECT_THAT(
      Answer(page->port(), Get("/metrics")),
      AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Content-Type: text/plain; charset=utf-8"),
            HasSubstr("Connection: close"), HasSubstr("\r\n\r\ntern_calls 1\n")));
  EXPECT_THAT(Answer(page->port(), Get("/metrics")), HasSubstr("tern_calls 2\n"));
  EXPECT_THAT(Answer(page->port(), "HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200"), Not(HasSubstr("tern_calls"))));
  EXPECT_THAT(Answer(page->port(), Get("/readyz")),
              AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("not ready\n")));
  EXPECT_THAT(Answer(page->port(), Get("/?x=1")),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Content-Type: text/html\r\n")));
}

TEST(HttpServer, EveryAnswerForbidsBrowsersAllThatIsNotOfThisServer) {
  const auto page = StartPage();
  for (const std::string path : {"/metrics", "/other"}) {
    EXPECT_THAT(Answer(page->port(), Get(path)),
                AllOf(HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self'; "),
                      HasSubstr("frame-ancestors 'none'"), Not(HasSubstr("unsafe")),
                      HasSubstr("X-Content-Type-Options: nosniff"),
                      HasSubstr("Cross-Origin-Resource-Policy: same-origin")));
  }
}

TEST(HttpServer, ServesNothingElse) {
  const auto page = StartPage();
  EXPECT_THAT(Answer(page->port(), Get("/other")),
              AllOf(StartsWith("HTTP/1.1 404"), HasSubstr("known: /metrics\n")));
  EXPECT_THAT(Answer(page->port(), "DELETE /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 405"), HasSubstr("Allow: GET, HEAD")));
  EXPECT_THAT(Answer(page->port(), "\x16\x03\x01 a TLS greeting\r\n\r\n"),
              Not(HasSubstr("HTTP/1.1 200")));
}

TEST(HttpServer, IsReadOnlyUnderItsOwnNames) {
  const auto page = StartPage();
  for (const std::string& host :
       {std::string("127.0.0.1:9100"), std::string("10.0.0.1"), std::string("[::1]:9100"),
        std::string("LOCALHOST:9100"), HostName()}) {
    EXPECT_THAT(Answer(page->port(), Get("/metrics", host)), StartsWith("HTTP/1.1 200")) << host;
  }
  for (const std::string host : {"evil.example", "evil.example:9100", "127.0.0.1.evil.example",
                                 "localhost.evil.example", "", "[evil]"}) {
    EXPECT_THAT(Answer(page->port(), Get("/metrics", host)),
                AllOf(StartsWith("HTTP/1.1 403"), Not(HasSubstr("evil"))))
        << host;
  }
  EXPECT_THAT(Answer(page->port(), "GET /metrics HTTP/1.1\r\n\r\n"), Not(HasSubstr("200 OK")));
  EXPECT_THAT(Answer(page->port(),
                     "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n"),
              Not(HasSubstr("200 OK")));
}

TEST(HttpServer, ReportsAPortInUse) {
  const auto page = StartPage();
  const auto page_on_same_port = HttpServer::Start("127.0.0.1", page->port(), {});
  ASSERT_FALSE(page_on_same_port.ok());
  EXPECT_EQ(page_on_same_port.status().code(), Code::kAddress);
  EXPECT_THAT(page_on_same_port.status().message(), HasSubstr(std::to_string(page->port())));
}

TEST(HttpServer, ReportsAHostOfAnotherMachine) {
  const auto page = HttpServer::Start("192.0.2.1", 0, {});
  ASSERT_FALSE(page.ok());
  EXPECT_EQ(page.status().code(), Code::kAddress);
}

TEST(HttpServer, StopsAtOnceWithAndWithoutRequests) {
  const Time begin = Now();
  for (int i = 0; i < 3; ++i) {
    const auto page = StartPage();
    const HttpClient silent_client(page->port());
    if (i == 2) Answer(page->port(), Get("/metrics"));
  }
  EXPECT_LT(Now() - begin, std::chrono::seconds(5));
}

TEST(HttpServer, SlowClientsDoNotBlockTheOthers) {
  const auto page = StartPage();
  std::atomic<bool> is_over{false};
  std::thread attacker([&] {
    std::vector<std::unique_ptr<HttpClient>> clients(40);
    while (!is_over) {
      for (auto& client : clients) {
        if (client != nullptr && client->Send("X: y\r\n")) continue;
        client = std::make_unique<HttpClient>(page->port());
        client->Send("GET /metrics HTTP/1.1\r\n");
      }
    }
  });
  for (int i = 0; i < 8; ++i)
    EXPECT_THAT(Answer(page->port(), Get("/metrics"), "127.0.0.2"), StartsWith("HTTP/1.1 200"));
  is_over = true;
  attacker.join();
}

TEST(HttpServer, ManyConnectionsOfOneAddressDoNotTakeThePlaceOfAnother) {
  const auto page = StartPage();
  std::vector<std::unique_ptr<HttpClient>> crowd;
  for (int i = 0; i < 16; ++i) crowd.push_back(std::make_unique<HttpClient>(page->port()));
  HttpClient client(page->port(), "127.0.0.2");
  EXPECT_TRUE(client.Send("GET /metrics HTTP/1.1\r\n"));
  for (int i = 0; i < 64; ++i) crowd.push_back(std::make_unique<HttpClient>(page->port()));
  // All of the crowd were accepted when the last one has its answer.
  EXPECT_TRUE(crowd.back()->Send(Get("/metrics")));
  EXPECT_THAT(crowd.back()->ReadAll(), StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(client.Send("Host: 127.0.0.1\r\n\r\n"));
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, AnAddressOpensALimitedNumberOfConnections) {
  const auto page = StartPage();
  // 100 at once and 20 more a second: so this takes more than 200 only if they take 5 seconds.
  int num_answered = 0;
  for (bool is_answered = true; is_answered && num_answered < 2000; num_answered += is_answered) {
    HttpClient client(page->port());
    client.Send(Get("/metrics"));
    is_answered = !client.ReadAll().empty();
  }
  EXPECT_GE(num_answered, 100);
  EXPECT_LT(num_answered, 2000);
  EXPECT_THAT(Answer(page->port(), Get("/metrics"), "127.0.0.2"), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, ARequestHasItsTimeAndNoMore) {
  const auto page = StartPage(std::string(50 << 20, 'x'), std::chrono::milliseconds(300));
  HttpClient silent(page->port());
  EXPECT_TRUE(silent.WaitUntilCut());
  HttpClient trickling(page->port());
  trickling.Send("GET /metrics HTTP/1.1\r\n");
  const Time end = Now() + kPatience;
  while (trickling.Send("x") && Now() < end) std::this_thread::yield();
  EXPECT_LT(Now(), end) << "a client that sends a byte now and then is cut, too";
  HttpClient not_reading(page->port());
  EXPECT_TRUE(not_reading.Send(Get("/metrics")));
  EXPECT_TRUE(not_reading.WaitUntilCut());
}

// The page runs in this process, so what it keeps of a request is seen in the process's memory.
TEST(HttpServer, EndlessRequestsCostNoMemory) {
  const auto page = StartPage();
  struct Attack {
    std::string name, begin, repeated;
  };
  std::string short_headers;
  while (short_headers.size() < 60000) short_headers += "a:b\r\n";
  const std::string post = "POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n";
  const Attack attacks[] = {
      {"short headers", "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n", short_headers},
      {"one long header", "GET /metrics HTTP/1.1\r\nX: ", std::string(60000, 'x')},
      {"one long line", "GET /", std::string(60000, 'x')},
      {"a chunk's size", post + "Transfer-Encoding: chunked\r\n\r\n", std::string(60000, '0')},
      {"chunks", post + "Transfer-Encoding: chunked\r\n\r\n",
       "ea60\r\n" + std::string(60000, 'x') + "\r\n"},
      {"a body without length", post + "\r\n", std::string(60000, 'x')},
      {"a long body", post + "Content-Length: 1000000000000\r\n\r\n", std::string(60000, 'x')},
  };
  const size_t before = ResidentBytes();
  for (const Attack& attack : attacks) {
    HttpClient client(page->port());
    client.Send(attack.begin);
    size_t sent_bytes = 0;
    while (sent_bytes < (64u << 20) && client.Send(attack.repeated))
      sent_bytes += attack.repeated.size();
    EXPECT_LT(ResidentBytes(), before + (16u << 20)) << attack.name;
    EXPECT_THAT(Answer(page->port(), Get("/metrics")), StartsWith("HTTP/1.1 200")) << attack.name;
  }
}

}  // namespace
}  // namespace tern::net
