#include "server/status/status_routes.h"

#include "server/status/page_files.h"
#include "server/status/status_json.h"

namespace tern::server {

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
}

}  // namespace tern::server
