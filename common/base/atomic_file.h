// Writes files so that they hold either the old or the complete new content, even after a crash of
// the process or the machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/storage.h"

namespace tern {

// Writes `bytes` to a temporary name beside `path` ("PATH.tmp.PID"), flushes it to the disk,
// renames it, and flushes the folder. On failure `path` is unchanged; kCannotWrite with the
// system's message.
Status WriteFileAtomically(const std::string& path, std::string_view bytes,
                           Storage& storage = Disk());
// Whether `name` is that of a temporary file, left behind by a process that died while writing.
bool IsTemporaryName(std::string_view name);

// The same as Disk().Read(path, max_bytes) of storage.h.
Result<std::string> ReadWholeFile(const std::string& path, uint64_t max_bytes = UINT64_MAX);

// Reads up to `max_bytes` bytes of a file or pipe. kBadData if a pipe delivers nothing for
// `timeout`; a terminal may take any time.
Result<std::string> ReadAtMost(const std::string& path, uint64_t max_bytes, Time timeout);

}  // namespace tern
