#include "tools/top/http_get.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/text.h"

namespace tern::tools {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

struct Url {
  std::string host, port = "80", path = "/";
};

std::optional<Url> ParseUrl(const std::string& text) {
  constexpr std::string_view kScheme = "http://";
  if (!text.starts_with(kScheme)) return std::nullopt;
  Url url;
  std::string rest = text.substr(kScheme.size());
  if (const size_t slash = rest.find('/'); slash != std::string::npos) {
    url.path = rest.substr(slash);
    rest.resize(slash);
  }
  const size_t bracket = rest.find(']');  // of an IPv6 address
  const size_t colon = rest.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon != std::string::npos) {
    url.port = rest.substr(colon + 1);
    rest.resize(colon);
  }
  if (bracket != std::string::npos) {
    if (!rest.starts_with('[') || !rest.ends_with(']')) return std::nullopt;
    rest = rest.substr(1, rest.size() - 2);
  }
  url.host = rest;
  const auto is_blank = [](char c) { return c <= ' ' || c == 127; };
  const bool has_bracket = url.host.find_first_of("[]") != std::string::npos;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool is_number = std::all_of(url.port.begin(), url.port.end(), is_digit);
  if (is_number && (url.port.size() > 5 || std::atoi(url.port.c_str()) > 65535))
    return std::nullopt;
  if (url.host.empty() || has_bracket || url.port.empty() ||
      std::any_of(text.begin(), text.end(), is_blank))
    return std::nullopt;
  return url;
}

// What a server says of an error, in one line.
std::string LineOf(std::string body) {
  while (!body.empty() && (body.back() == '\n' || body.back() == '\r')) body.pop_back();
  return Printable(body, 200);
}

// One request: each step starts the next one, and an error ends it.
class Request {
 public:
  Request(asio::io_context& context, const Url& url, Time timeout)
      : url_(url), resolver_(context), stream_(context) {
    stream_.expires_after(timeout);
    parser_.body_limit(HttpGet::kMaxBytes);
    request_.method(http::verb::get);
    request_.target(url.path);
    request_.version(11);
    const bool is_ipv6 = url.host.find(':') != std::string::npos;
    const std::string host = is_ipv6 ? "[" + url.host + "]" : url.host;
    request_.set(http::field::host, host + ":" + url.port);
    request_.set(http::field::connection, "close");
  }

  void Start() {
    resolver_.async_resolve(url_.host, url_.port, [this](error_code error, auto hosts) {
      if (Fails(error)) return;
      stream_.async_connect(hosts, [this](error_code error, const auto&) {
        if (Fails(error)) return;
        http::async_write(stream_, request_, [this](error_code error, size_t) {
          if (Fails(error)) return;
          http::async_read(stream_, buffer_, parser_, [this](error_code error, size_t) {
            if (!Fails(error)) has_answer_ = true;
          });
        });
      });
    });
  }

  bool has_answer() const { return has_answer_; }
  const error_code& error() const { return error_; }
  const http::response<http::string_body>& answer() { return parser_.get(); }

 private:
  bool Fails(error_code error) {
    if (error) error_ = error;
    return static_cast<bool>(error);
  }

  const Url url_;
  tcp::resolver resolver_;
  beast::tcp_stream stream_;
  http::request<http::empty_body> request_;
  beast::flat_buffer buffer_;
  http::response_parser<http::string_body> parser_;
  error_code error_;
  bool has_answer_ = false;
};

}  // namespace

class HttpGet::Impl {
 public:
  Result<std::string> Read(const std::string& text, Time timeout) {
    const std::optional<Url> url = ParseUrl(text);
    if (!url.has_value()) {
      return Status(Code::kUsage, Cat("'", Printable(text),
                                      "' is no address of a page; expected http://HOST:PORT/"));
    }
    // Its destructor drops the handlers of a request that has not ended.
    asio::io_context context{1};
    Request request(context, *url, timeout);
    request.Start();
    if (Publish(&context)) context.run_for(timeout + std::chrono::milliseconds(100));
    if (!Publish(nullptr)) return Status(Code::kInterrupted, "cancelled");
    const std::string where = Printable(text, 200);
    if (request.error()) {
      return Status(Code::kAddress, Cat(where, ": ", request.error().message(),
                                        "; does a job run there, with this metrics.port?"));
    }
    if (!request.has_answer())
      return Status(Code::kAddress, Cat(where, ": no answer within ", HumanTime(timeout)));
    const http::response<http::string_body>& answer = request.answer();
    if (answer.result() == http::status::ok) return answer.body();
    std::string sentence = Cat(where, ": HTTP status ", answer.result_int());
    if (const std::string said = LineOf(answer.body()); !said.empty()) sentence += ": " + said;
    if (answer.result() == http::status::not_found)
      sentence += "; the status of a job is on the page of its server shard 0 alone";
    return Status(Code::kAddress, sentence);
  }

  void Cancel() {
    const MutexLock lock(mutex_);
    is_cancelled_ = true;
    if (running_ != nullptr) running_->stop();
  }

 private:
  // Tells Cancel() what runs. Returns whether nothing was cancelled.
  bool Publish(asio::io_context* context) {
    const MutexLock lock(mutex_);
    running_ = context;
    return !is_cancelled_;
  }

  Mutex mutex_;
  asio::io_context* running_ TERN_GUARDED_BY(mutex_) = nullptr;
  bool is_cancelled_ TERN_GUARDED_BY(mutex_) = false;
};

HttpGet::HttpGet() : impl_(std::make_unique<Impl>()) {}
HttpGet::~HttpGet() = default;

Result<std::string> HttpGet::Read(const std::string& url, Time timeout) {
  try {
    return impl_->Read(url, timeout);
  } catch (const std::exception& error) {  // of Boost, when no descriptor is left
    return Status(Code::kInternal, Cat("cannot read ", Printable(url, 200), ": ", error.what()));
  }
}

void HttpGet::Cancel() { impl_->Cancel(); }

}  // namespace tern::tools
