#include "server/status/status_routes.h"

#include <memory>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "server/status/page_files.h"
#include "server/status/status_json.h"

namespace tern::server {

namespace {

net::HttpAnswer Health(const StatusBoard& board) {
  const Time age = Now() - board.status()->at;
  if (age < kHealthyAge) return {200, "ok\n"};
  return {503, Cat("the control thread has not turned for ", HumanTime(age), "\n")};
}

net::HttpAnswer Readiness(const StatusBoard& board) {
  const std::shared_ptr<const JobStatus> status = board.status();
  if (status->state == "running" || status->state == "ending") return {200, "ready\n"};
  std::vector<std::string> missing;
  for (const WorkerRow& row : status->workers)
    if (row.state != "waiting" && row.state != "done") missing.push_back(Cat("worker ", row.rank));
  for (const ShardRow& row : status->shards)
    if (row.state != "present") missing.push_back(Cat("server shard ", row.shard));
  return {503, missing.empty() ? "not ready\n" : Cat("waiting for ", Join(missing), "\n")};
}

}  // namespace

void AddStatusRoutes(const setup::Setup& setup, const StatusBoard& board, net::HttpRoutes* routes) {
  const auto add_file = [routes](const char* path, const char* text, const char* type) {
    (*routes)[path] = [text, type] { return net::HttpAnswer{200, text, type}; };
  };
  add_file("/", kPageHtml, "text/html; charset=utf-8");
  add_file("/page.css", kPageCss, "text/css; charset=utf-8");
  add_file("/page.js", kPageJs, "text/javascript; charset=utf-8");
  (*routes)["/status.json"] = [&setup, &board] {
    return net::HttpAnswer{200, StatusJson(setup, *board.status(), Now()), "application/json"};
  };
  (*routes)["/healthz"] = [&board] { return Health(board); };
  (*routes)["/readyz"] = [&board] { return Readiness(board); };
}

}  // namespace tern::server
