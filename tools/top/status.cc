// tern status: prints the status of a running job once.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "common/base/terminal_line.h"
#include "tools/commands.h"
#include "tools/top/http_get.h"
#include "tools/top/status_view.h"
#include "tools/top/target.h"

namespace tern::tools {

Status ShowStatus(const Arguments& arguments) {
  const Result<Target> target = ReadTarget(arguments);
  if (!target.ok()) return target.status();
  HttpGet http;
  const Result<std::string> answer = http.Read(target->url);
  if (!answer.ok()) return answer.status();
  const Result<std::vector<ViewLine>> lines =
      ViewStatus(*answer, {.columns = std::max<size_t>(80, TerminalLine(STDOUT_FILENO).columns())});
  if (!lines.ok()) return lines.status();
  if (target->as_json) {
    std::printf("%s\n", answer->c_str());
    return Ok();
  }
  for (const ViewLine& line : *lines) std::printf("%s\n", line.text.c_str());
  return Ok();
}

}  // namespace tern::tools
