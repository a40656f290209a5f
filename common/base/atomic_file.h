// Files that hold either the old content or all of the new, whenever the process or machine dies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tern {

// Writes `bytes` to a temporary name beside `path` ("PATH.tmp.PID"), flushes it to the disk,
// renames it, and flushes the folder. On failure `path` is unchanged; kCannotWrite with the
// system's message.
Status WriteFileAtomically(const std::string& path, std::string_view bytes);
// Whether a file name is that of a temporary file of a process that died while it wrote.
bool IsLeftBehind(std::string_view name);

// Reads a whole regular file of at most `most_bytes`. kBadData if it is something else (a folder, a
// pipe), is longer, or cannot be read.
Result<std::string> ReadWholeFile(const std::string& path, uint64_t most_bytes = UINT64_MAX);

// Reads the first `most_bytes` of a file or pipe, or all of it if it is shorter. kBadData if a pipe
// gives nothing for `patience`. Waits for a terminal without limit.
Result<std::string> ReadAtMost(const std::string& path, uint64_t most_bytes, Time patience);

// Flushes a folder, so that files created, renamed or removed in it stay so. Does nothing on a file
// system that cannot flush folders.
void FlushFolder(const std::string& folder);

}  // namespace tern
