// Files that are either the old one or the whole new one, whenever the process or the machine dies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tern {

// Writes `bytes` under a temporary name beside `path` ("PATH.tmp.PID"), flushes them to the disk,
// renames, and flushes the folder. Where it fails `path` is as it was; kCannotWrite with what the
// system says.
Status WriteFileAtomically(const std::string& path, std::string_view bytes);
// Whether a file name is one that a process left behind that died in there.
bool IsLeftBehind(std::string_view name);

// The whole of a regular file of at most `most_bytes`. kBadData: it is something else (a folder, a
// pipe), longer, or cannot be read.
Result<std::string> ReadWholeFile(const std::string& path, uint64_t most_bytes = UINT64_MAX);

// That what was created, renamed or removed in a folder stays so. A file system that cannot flush
// a folder is let be.
void FlushFolder(const std::string& folder);

}  // namespace tern
