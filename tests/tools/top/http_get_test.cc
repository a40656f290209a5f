// Tests of reading a document over HTTP.
#include "tools/top/http_get.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "common/net/http_server.h"
#include "common/net/tcp_listener.h"

namespace tern::tools {
namespace {

using ::testing::HasSubstr;

std::string UrlOf(uint16_t port, const std::string& path) {
  return "http://127.0.0.1:" + std::to_string(port) + path;
}

TEST(HttpGet, ReadsADocument) {
  const std::string text(300'000, 'x');
  const auto server = net::HttpServer::Start("127.0.0.1", 0, {{"/a", [&] {
                                                                 return net::HttpAnswer{200, text};
                                                               }}});
  ASSERT_TRUE(server.ok());
  HttpGet http;
  for (int i = 0; i < 2; ++i) {
    const Result<std::string> answer = http.Read(UrlOf((*server)->port(), "/a"));
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(*answer, text);
  }
  const Result<std::string> missing = http.Read(UrlOf((*server)->port(), "/b"));
  EXPECT_EQ(missing.status().code(), Code::kAddress);
  EXPECT_THAT(
      missing.status().message(),
      HasSubstr("/b: HTTP status 404: There is no such path; known: /a; the status of a job "
                "is on the page of its server shard 0 alone"));
}

TEST(HttpGet, SaysThatNobodyAnswers) {
  uint16_t port = 0;
  {
    const auto listener = net::TcpListener::Listen("127.0.0.1", 0);
    ASSERT_TRUE(listener.ok());
    port = (*listener)->port();
  }
  HttpGet http;
  const Result<std::string> answer = http.Read(UrlOf(port, "/"));
  EXPECT_EQ(answer.status().code(), Code::kAddress);
  EXPECT_THAT(answer.status().message(), HasSubstr("refused"));
}

TEST(HttpGet, RefusesAPortThatNobodyHas) {
  HttpGet http;
  for (const char* port : {"65536", "99999", "4294967376"}) {
    const Result<std::string> answer = http.Read(std::string("http://127.0.0.1:") + port + "/");
    EXPECT_EQ(answer.status().code(), Code::kUsage) << answer.status().message();
  }
}

TEST(HttpGet, EndsAtItsDeadline) {
  const auto silent = net::TcpListener::Listen("127.0.0.1", 0);  // nobody accepts
  ASSERT_TRUE(silent.ok());
  HttpGet http;
  const Result<std::string> answer =
      http.Read(UrlOf((*silent)->port(), "/"), std::chrono::milliseconds(50));
  EXPECT_EQ(answer.status().code(), Code::kAddress);
}

TEST(HttpGet, CanBeCancelled) {
  const auto silent = net::TcpListener::Listen("127.0.0.1", 0);
  ASSERT_TRUE(silent.ok());
  HttpGet http;
  std::thread canceller([&] { http.Cancel(); });
  EXPECT_EQ(http.Read(UrlOf((*silent)->port(), "/"), std::chrono::hours(1)).status().code(),
            Code::kInterrupted);
  canceller.join();
}

TEST(HttpGet, RefusesWhatIsNoHttpUrl) {
  HttpGet http;
  for (const std::string url : {"", "job.yaml", "https://a/", "http://", "http://:5/", "http://a:/",
                                "http://a b/", "http://[::1/", "http://a/\r\nX: y"})
    EXPECT_EQ(http.Read(url).status().code(), Code::kUsage) << url;
}

}  // namespace
}  // namespace tern::tools
