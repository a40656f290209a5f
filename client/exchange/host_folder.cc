#include "client/exchange/host_folder.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "common/base/hash.h"
#include "common/base/host_name.h"
#include "common/base/text.h"
#include "common/net/frame.h"

namespace tern::client {
namespace {

constexpr size_t kLongestFileName = sizeof "/leader.socket";

// Names this process's network namespace; "" without one.
std::string NetworkOfProcess() {
  std::array<char, 64> text{};
  const ssize_t size = readlink("/proc/self/ns/net", text.data(), text.size());
  return size <= 0 ? "" : std::string(text.data(), static_cast<size_t>(size));
}

std::string NameOf(const setup::Setup& setup, uint64_t run) {
  std::string text = Cat("wire ", net::kWireVersion, " run ", run, " job ",
                         setup.hello.job_digest(), " host ", HostName(), " ", NetworkOfProcess());
  for (const pb::Server& server : setup.job.servers()) text += " " + server.address();
  return Hex(Digest(text));
}

Status CheckOwner(const std::string& folder) {
  struct stat info = {};
  if (lstat(folder.c_str(), &info) != 0)
    return Status(Code::kAddress, Cat("cannot look at ", folder, ": ", std::strerror(errno)));
  if (S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0) return Ok();
  return Status(Code::kNotAllowed,
                Cat(folder, " is not a folder that user ", geteuid(),
                    " alone can enter; remove it, or set TMPDIR to a folder of this user"));
}

}  // namespace

Result<std::string> MakeHostFolder(const setup::Setup& setup, uint64_t run) {
  const char* const temporary = std::getenv("TMPDIR");
  const std::string base = temporary == nullptr || *temporary == 0 ? "/tmp" : temporary;
  std::string folder = Cat(base, "/tern-", geteuid(), "-", NameOf(setup, run));
  if (folder.size() + kLongestFileName >= sizeof(sockaddr_un::sun_path))
    return Status(Code::kAddress, Cat("the path ", folder,
                                      " is too long for a socket; set TMPDIR to a shorter one"));
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return Status(Code::kAddress, Cat("cannot make ", folder, ": ", std::strerror(errno)));
  TERN_RETURN_IF_ERROR(CheckOwner(folder));
  return folder;
}

}  // namespace tern::client
