// Helpers of the tests of common/net. All sockets are on loopback, on ports that the system
// chooses.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log_sink.h"
#include "common/net/poller.h"
#include "common/net/socket.h"
#include "tests/limited_memory.h"

namespace tern::net {

// How long a test waits for an expected event.
inline constexpr Time kPatience = std::chrono::seconds(20);

// An envelope whose body is an empty message: that of the envelope's field with this number.
inline pb::Envelope EnvelopeOf(int number) {
  pb::Envelope envelope;
  const auto* field = pb::Envelope::descriptor()->FindFieldByNumber(number);
  envelope.GetReflection()->MutableMessage(&envelope, field);
  return envelope;
}

// A small message that carries a number.
inline pb::Envelope NumberedEnvelope(uint64_t number) {
  pb::Envelope envelope;
  envelope.mutable_push()->mutable_in_round()->set_round(number);
  return envelope;
}

// Counts the lines of the log, warnings and errors, that begin with a text.
class LogLines {
 public:
  // Counts warnings that begin with one of these texts.
  explicit LogLines(std::vector<std::string> begins) {
    begins_ = std::move(begins);
    number_ = 0;
    old_sink_ = SetLogSink([](const LogRecord& record) {
      const bool is_counted = std::any_of(begins_.begin(), begins_.end(), [&](const auto& begin) {
        return record.message.starts_with(begin);
      });
      if (record.level >= LogLevel::kWARNING && is_counted) ++number_;
    });
  }
  ~LogLines() { SetLogSink(old_sink_); }
  int number() const { return number_; }
  bool AwaitOne() const {
    for (const Time end = Now() + kPatience; number_ == 0 && Now() < end;) usleep(1000);
    return number_ != 0;
  }

 private:
  // Static, because a LogSink is a function. A test has one such object at a time.
  inline static std::vector<std::string> begins_;
  inline static std::atomic<int> number_{0};
  LogSink old_sink_ = nullptr;
};

// A payload with these characters.
inline Bytes Text(const std::string& text) { return Bytes::Own(text); }

// The value of a result, which must not be an error.
template <typename T>
T Value(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(*result);
}

inline std::unique_ptr<RouterSocket> BindLoopback(Context& context, SocketOptions options = {}) {
  return Value(RouterSocket::Bind(context, "127.0.0.1", 0, options));
}

inline std::unique_ptr<DealerSocket> ConnectTo(Context& context, const RouterSocket& router,
                                               SocketOptions options = {}) {
  return Value(DealerSocket::Connect(context, "127.0.0.1", router.port(), options));
}

// How much of this process is in memory; 0 under the address and thread sanitizers, which keep
// freed memory.
inline size_t ResidentBytes() {
#ifdef TERN_TEST_HAS_SANITIZER
  return 0;
#endif
  size_t pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident_pages;
  return resident_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Waits for the next message of a socket; empty after a timeout.
template <typename Socket>
std::optional<ReceivedMessage> AwaitMessage(Socket& socket, Time patience = kPatience) {
  Poller poller;
  poller.Add(&socket);
  const Time end = Now() + patience;
  while (true) {
    if (std::optional<ReceivedMessage> received = socket.Receive()) return received;
    if (Now() >= end) return std::nullopt;
    EXPECT_TRUE(poller.Wait(end - Now()).ok());
  }
}

// Waits until the dealer's connection has this state; false after a timeout.
inline bool AwaitLink(DealerSocket& dealer, DealerSocket::Link link) {
  Poller poller;
  poller.Add(&dealer);
  const Time end = Now() + kPatience;
  while (dealer.link() != link && Now() < end) EXPECT_TRUE(poller.Wait(end - Now()).ok());
  return dealer.link() == link;
}

}  // namespace tern::net
