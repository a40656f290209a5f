// Reads a document over HTTP.
#pragma once

#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tern::tools {

class HttpGet {
 public:
  static constexpr Time kTimeout = std::chrono::seconds(5);
  // The longest answer that is read.
  static constexpr size_t kMaxBytes = size_t{16} << 20;

  HttpGet();
  ~HttpGet();
  // The body of the answer to GET `url`, which is http://HOST[:PORT][/PATH]. Blocks for `timeout`
  // at most. kUsage: not such a URL. kAddress: nobody answers in time, or with an error.
  Result<std::string> Read(const std::string& url, Time timeout = kTimeout);
  // Any thread: a Read in progress, and every later one, ends at once with kInterrupted.
  void Cancel();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace tern::tools
