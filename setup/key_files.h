// Files with keys. A secret file has one secret as text (common/net/keys.h) and a newline; only its
// user may read it. A peers file has the public keys of a job's daemons, a line each:
//
//   # The second key of worker 3 replaces the first one soon.
//   shard 0 = rT%j#...
//   worker 3 = q4l>0...
//   worker 3 = L(9Dv...
//
// All errors are kBadJob, with a sentence that begins with the file's path and says what to do.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/net/security.h"

namespace tern::setup {

// Makes sure that no core dump, debugger or other process of this user gets the memory of this
// process. Call before reading a secret.
void ForbidDumps();

// Refused are links, files that are not regular, files of another user, files that the group or
// others may read or write, and any other content than one secret and a newline. A file of root
// that its group may read, and nobody else, is accepted: root has chosen who is in that group.
Result<net::SecretKey> ReadSecretFile(const std::string& path);
// Writes a new file that only its user may read and write. Never replaces a file: kCannotWrite if
// there is one.
Status WriteSecretFile(const std::string& path, const net::SecretKey& secret);

// Refused are files that are not regular, or that anybody but root and this user may write, and
// what ParsePeers refuses.
Result<net::AllowList> ReadPeersFile(const std::string& path);
// Reads the text of a peers file; `name` is the file's name in messages. Refused are more than 64
// KiB, lines of another form, a key that is there twice, more than two keys for a daemon, and keys
// that everybody knows (common/net/keys.h).
Result<net::AllowList> ParsePeers(std::string_view text, const std::string& name);
std::string PeersText(const net::AllowList& peers);

// "worker 3": a daemon's name in peers files and sentences.
std::string NameOf(const net::Principal& principal);

}  // namespace tern::setup
