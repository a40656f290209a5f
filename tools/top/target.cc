#include "tools/top/target.h"

#include <filesystem>

#include "common/base/text.h"
#include "common/config/job.h"
#include "common/net/address.h"
#include "setup/metrics_routes.h"
#include "setup/setup.h"

namespace tern::tools {

namespace {

Result<std::string> PageUrlOf(const std::string& job_path,
                              const std::vector<std::string>& overrides) {
  const Result<pb::Job> job = setup::LoadJob(job_path, overrides);
  if (!job.ok()) return job.status();
  const std::string url = setup::PageUrl(*job);
  if (!url.empty()) return url;
  return Status(Code::kUsage, Cat(Printable(job_path, 200),
                                  " has no metrics.port, so nobody serves its status; start the "
                                  "job with, for instance, --set metrics.port=7600"));
}

}  // namespace

Result<Target> ReadTarget(const setup::Arguments& arguments) {
  Target target;
  target.as_json = arguments.HasFlag("json");
  target.url = arguments.positional()[0];
  if (const size_t scheme = target.url.find("://"); scheme != std::string::npos) {
    if (!target.url.starts_with("http://"))
      return Status(Code::kUsage, Cat("'", Printable(target.url), "': expected http://HOST:PORT/"));
  } else if (net::ParseAddress(target.url).ok() && !std::filesystem::exists(target.url)) {
    target.url = "http://" + target.url;
  } else {
    Result<std::string> url = PageUrlOf(target.url, arguments.AllValues("set"));
    if (!url.ok()) return url.status();
    target.url = std::move(*url);
  }
  if (!target.url.ends_with("/status.json"))
    target.url += target.url.ends_with('/') ? "status.json" : "/status.json";
  return target;
}

}  // namespace tern::tools
