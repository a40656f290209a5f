// Tests of the HTTP page from which Prometheus reads the metrics of a process.
#include "common/net/metrics_page.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "tests/common/net/net_testing.h"

namespace tern::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

int ConnectTcp(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// Returns the whole HTTP response to a GET request for `path`.
std::string GetPage(uint16_t port, const std::string& path) {
  const int fd = ConnectTcp(port);
  const std::string request =
      "GET " + path + " HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = recv(fd, buffer, sizeof buffer, 0)) > 0;) answer.append(buffer, n);
  close(fd);
  return answer;
}

TEST(MetricsPage, ServesTheCurrentText) {
  std::atomic<int> num_calls{0};
  const auto page = Value(MetricsPage::Start(
      "127.0.0.1", 0, [&] { return "tern_calls " + std::to_string(++num_calls) + "\n"; }));
  ASSERT_NE(page->port(), 0);
  EXPECT_THAT(GetPage(page->port(), "/metrics"),
              AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("text/plain; version=0.0.4"),
                    HasSubstr("\r\n\r\ntern_calls 1\n")));
  EXPECT_THAT(GetPage(page->port(), "/metrics"), HasSubstr("tern_calls 2\n"));
  EXPECT_THAT(GetPage(page->port(), "/other"), StartsWith("HTTP/1.1 404"));
}

TEST(MetricsPage, ReportsAPortInUse) {
  const auto empty_text = [] { return std::string(); };
  const auto page = Value(MetricsPage::Start("127.0.0.1", 0, empty_text));
  const auto page_on_same_port = MetricsPage::Start("127.0.0.1", page->port(), empty_text);
  ASSERT_FALSE(page_on_same_port.ok());
  EXPECT_EQ(page_on_same_port.status().code(), Code::kAddress);
  EXPECT_THAT(page_on_same_port.status().message(), HasSubstr(std::to_string(page->port())));
}

TEST(MetricsPage, ReportsAHostOfAnotherMachine) {
  const auto page = MetricsPage::Start("192.0.2.1", 0, [] { return std::string(); });
  ASSERT_FALSE(page.ok());
  EXPECT_EQ(page.status().code(), Code::kAddress);
}

TEST(MetricsPage, StopsAtOnceWithAndWithoutRequests) {
  const Time begin = Now();
  for (int i = 0; i < 3; ++i) {
    const auto page = Value(MetricsPage::Start("127.0.0.1", 0, [] { return std::string("x"); }));
    if (i == 2) GetPage(page->port(), "/metrics");
  }
  EXPECT_LT(Now() - begin, std::chrono::seconds(5));
}

TEST(MetricsPage, ASilentClientDoesNotBlockTheOthers) {
  const auto page = Value(MetricsPage::Start("127.0.0.1", 0, [] { return std::string("x"); }));
  const int silent_connection = ConnectTcp(page->port());
  EXPECT_THAT(GetPage(page->port(), "/metrics"), StartsWith("HTTP/1.1 200"));
  close(silent_connection);
}

}  // namespace
}  // namespace tern::net
