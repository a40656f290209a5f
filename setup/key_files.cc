#include "setup/key_files.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "common/base/file.h"
#include "common/base/text.h"
#include "common/net/keys.h"

namespace tern::setup {
namespace {

using net::Principal;

constexpr size_t kMaxPeersBytes = 256 << 10;
constexpr size_t kMaxKeysOfPrincipal = 2;
constexpr const char* kMakeKeys = "make keys with `tern keys make DIR --job JOB`";
constexpr std::string_view kWorkerWord = "worker ", kShardWord = "shard ";

Status FileError(const std::string& path, const std::string& sentence) {
  return Status(Code::kBadJob, Cat(path, ": ", sentence));
}

std::string OctalMode(mode_t mode) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "%04o", mode & 07777u);
  return text.data();
}

// Opens a file and checks that it is regular. `flags`: O_NOFOLLOW or 0.
Result<std::unique_ptr<File>> OpenRegular(const std::string& path, int flags, struct stat* info) {
  // O_NONBLOCK: opening a pipe does not wait for a writer.
  auto file = std::make_unique<File>(
      open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags));
  if (file->fd() < 0 && errno == ELOOP)
    return FileError(path,
                     "saw a symbolic link, expected the file itself: give the path of the file");
  if (file->fd() < 0 && errno == ENOENT) {
    return FileError(path, Cat("there is no such file: ", kMakeKeys,
                               ", and copy this daemon's files to this host"));
  }
  if (file->fd() < 0 || fstat(file->fd(), info) != 0)
    return FileError(path, Cat("cannot read it: ", std::strerror(errno)));
  if (!S_ISREG(info->st_mode))
    return FileError(path, "saw no regular file, expected a file with keys");
  return file;
}

// Whether a process that is not root may read it only because root has given it to its group: so
// Kubernetes hands a secret to the user of a container (fsGroup).
bool IsLentByRoot(const struct stat& info) {
  return geteuid() != 0 && info.st_uid == 0 && (info.st_mode & 037) == 0;
}

Status CheckIsPrivate(const std::string& path, const struct stat& info) {
  if (IsLentByRoot(info)) return Ok();
  if (info.st_uid != geteuid()) {
    return FileError(path, Cat("saw a file of user ", info.st_uid, ", expected one of user ",
                               geteuid(), ", who runs this program: change its owner"));
  }
  if ((info.st_mode & 077) != 0) {
    return FileError(path, Cat("saw the mode ", OctalMode(info.st_mode),
                               ", expected 0600: others may read or change this secret; make new "
                               "keys if somebody may have read it, else chmod 600"));
  }
  return Ok();
}

Status CheckIsTrusted(const std::string& path, const struct stat& info) {
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return FileError(path,
                     Cat("saw a file of user ", info.st_uid, ", expected one of user ", geteuid(),
                         " or of root: who writes this file decides who takes part in the job"));
  }
  if ((info.st_mode & 022) != 0) {
    return FileError(path,
                     Cat("saw the mode ", OctalMode(info.st_mode),
                         ", expected 0644: others may change who takes part in the job; check "
                         "its lines, then chmod 644"));
  }
  return Ok();
}

// Returns the number of bytes read, at most `size`.
Result<size_t> ReadUpTo(const std::string& path, int fd, char* bytes, size_t size) {
  size_t num_read = 0;
  while (num_read < size) {
    const ssize_t result =
        pread(fd, bytes + num_read, size - num_read, static_cast<off_t>(num_read));
    if (result < 0 && errno == EINTR) continue;
    if (result < 0) return FileError(path, Cat("cannot read it: ", std::strerror(errno)));
    if (result == 0) break;
    num_read += static_cast<size_t>(result);
  }
  return num_read;
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// Reads "worker 3"; nullopt for anything else.
std::optional<Principal> ParseName(std::string_view text) {
  Principal principal;
  if (text.starts_with(kShardWord)) {
    principal.role = Principal::Role::kShard;
    text.remove_prefix(kShardWord.size());
  } else if (text.starts_with(kWorkerWord)) {
    text.remove_prefix(kWorkerWord.size());
  } else {
    return std::nullopt;
  }
  text = Trimmed(text);
  const char* end = text.data() + text.size();
  const auto [parsed_end, error] = std::from_chars(text.data(), end, principal.number);
  if (text.empty() || error != std::errc() || parsed_end != end) return std::nullopt;
  return principal;
}

// Adds the key of one line.
Status AddLine(std::string_view line, net::AllowList* peers,
               std::map<Principal, size_t>* num_keys) {
  // A key may contain "=", but not a space.
  const size_t equals_at = line.find('=');
  const std::optional<Principal> principal = ParseName(Trimmed(line.substr(0, equals_at)));
  if (equals_at == std::string_view::npos || !principal.has_value()) {
    // The line may have a secret that somebody put into the wrong file, so it is not repeated.
    return Status(Code::kBadJob,
                  "saw a line of another form, expected \"worker N = KEY\" or \"shard N = KEY\"");
  }
  const Result<net::PublicKey> key = net::ParsePublicKey(Trimmed(line.substr(equals_at + 1)));
  if (!key.ok()) return key.status();
  const auto [entry, is_new] = peers->emplace(*key, *principal);
  if (!is_new) {
    return Status(Code::kBadJob,
                  Cat("saw a key of ", NameOf(entry->second), " again, expected each key once"));
  }
  if (++(*num_keys)[*principal] <= kMaxKeysOfPrincipal) return Ok();
  return Status(Code::kBadJob,
                Cat("saw more than ", kMaxKeysOfPrincipal, " keys of ", NameOf(*principal),
                    ", expected its key and, while that is replaced, the next one"));
}

}  // namespace

void ForbidDumps() {
  prctl(PR_SET_DUMPABLE, 0);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
}

Result<net::SecretKey> ReadSecretFile(const std::string& path) {
  struct stat info {};
  const auto file = OpenRegular(path, O_NOFOLLOW, &info);
  if (!file.ok()) return file.status();
  TERN_RETURN_IF_ERROR(CheckIsPrivate(path, info));
  std::array<char, net::kKeyTextSize + 2> text{};
  const Result<size_t> num_read = ReadUpTo(path, (*file)->fd(), text.data(), text.size());
  if (!num_read.ok()) return num_read.status();
  const bool has_one_line = *num_read == net::kKeyTextSize + 1 && text[net::kKeyTextSize] == '\n';
  Result<net::SecretKey> secret =
      has_one_line
          ? net::ParseSecretKey({text.data(), net::kKeyTextSize})
          : Status(Code::kBadJob, Cat("saw ", std::max<off_t>(info.st_size, 0), " bytes, expected ",
                                      net::kKeyTextSize, " characters of Z85 and a newline"));
  net::Wipe(text.data(), text.size());
  if (secret.ok()) return secret;
  return FileError(path, Cat(secret.status().message(), ": ", kMakeKeys));
}

Status WriteSecretFile(const std::string& path, const net::SecretKey& secret) {
  File file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.fd() < 0 && errno == EEXIST) {
    return Status(Code::kCannotWrite, Cat(path,
                                          ": there is such a file, and keys are never "
                                          "overwritten: give a new folder, or remove the file"));
  }
  std::array<char, net::kKeyTextSize + 1> text{};
  net::KeyText key_text = net::ToText(secret);
  std::copy(key_text.begin(), key_text.end(), text.begin());
  net::Wipe(key_text.data(), key_text.size());
  text.back() = '\n';
  const bool is_written = file.fd() >= 0 && write(file.fd(), text.data(), text.size()) ==
                                                static_cast<ssize_t>(text.size());
  net::Wipe(text.data(), text.size());
  if (is_written && file.Close()) return Ok();
  return Status(Code::kCannotWrite, Cat("cannot write ", path, ": ", std::strerror(errno)));
}

Result<net::AllowList> ReadPeersFile(const std::string& path) {
  struct stat info {};
  const auto file = OpenRegular(path, 0, &info);
  if (!file.ok()) return file.status();
  TERN_RETURN_IF_ERROR(CheckIsTrusted(path, info));
  std::string text(kMaxPeersBytes + 1, '\0');
  const Result<size_t> num_read = ReadUpTo(path, (*file)->fd(), text.data(), text.size());
  if (!num_read.ok()) return num_read.status();
  return ParsePeers(std::string_view(text).substr(0, *num_read), path);
}

Result<net::AllowList> ParsePeers(std::string_view text, const std::string& name) {
  if (text.size() > kMaxPeersBytes) {
    return FileError(name,
                     Cat("saw more than ", kMaxPeersBytes, " bytes, expected a line for each key"));
  }
  net::AllowList peers;
  std::map<Principal, size_t> num_keys;
  for (size_t line_number = 1; !text.empty(); ++line_number) {
    const std::string_view line = Trimmed(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), text.find('\n')));
    if (!text.empty()) text.remove_prefix(1);
    if (line.empty() || line.front() == '#') continue;
    TERN_RETURN_IF_ERROR(AddLine(line, &peers, &num_keys).Within(Cat(name, ":", line_number)));
  }
  return peers;
}

std::string PeersText(const net::AllowList& peers) {
  std::map<Principal, std::string> lines;
  for (const auto& [key, principal] : peers)
    lines[principal] += Cat(NameOf(principal), " = ", net::ToText(key), "\n");
  std::string text;
  for (const auto& [principal, lines_of_principal] : lines) text += lines_of_principal;
  return text;
}

std::string NameOf(const Principal& principal) {
  return Cat(principal.role == Principal::Role::kWorker ? kWorkerWord : kShardWord,
             principal.number);
}

}  // namespace tern::setup
