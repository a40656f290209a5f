#include "tools/run/member_failpoints.h"

#include "common/base/failpoint_flag.h"
#include "common/base/text.h"

namespace tern::tools {
namespace {

// "ROLE RANK" for "ROLE.RANK" if the job has this process; else an empty string.
std::string NameOfMember(const std::string& text, const std::string& role, uint32_t num_ranks) {
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    if (text == Cat(role, ".", rank)) return Cat(role, " ", rank);
  }
  return "";
}

}  // namespace

Result<std::map<std::string, std::vector<std::string>>> ReadMemberFailpoints(
    const std::vector<std::string>& values, uint32_t num_servers, uint32_t num_workers) {
  std::map<std::string, std::vector<std::string>> arguments_of_members;
  for (const std::string& value : values) {
    const size_t colon_at = value.find(':');
    const std::string member = value.substr(0, colon_at);
    const std::string role = member.starts_with("server") ? "server" : "worker";
    const std::string name =
        NameOfMember(member, role, role == "server" ? num_servers : num_workers);
    if (name.empty() || colon_at == std::string::npos) {
      return Status(Code::kUsage,
                    Cat("--fail ", Printable(value),
                        ": expected ROLE.RANK:FAILPOINT, for example "
                        "worker.0:thread.compute=hang@step:20, with server.0 to server.",
                        num_servers - 1, " or worker.0 to worker.", num_workers - 1,
                        "; tern_worker --fail list describes failpoints"));
    }
    const std::string text = value.substr(colon_at + 1);
    if (const Result<Failpoint> failpoint = ParseFailpoint(text, role); !failpoint.ok())
      return failpoint.status();
    std::vector<std::string>& arguments = arguments_of_members[name];
    arguments.insert(arguments.end(), {"--fail", text});
  }
  return arguments_of_members;
}

}  // namespace tern::tools
