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

// Writes `bytes` to a temporary name beside `path`, PATH.tmp.SUFFIX with 16 random hexadecimal
// digits, flushes it to the disk, renames it to `path`, and flushes the folder. If `path` is a
// symbolic link, the link is replaced, and not followed. On failure `path` is unchanged, and the
// result is kCannotWrite with the system's message.
Status WriteFileAtomically(const std::string& path, std::string_view bytes,
                           Storage& storage = Disk());
// A new temporary name for `path`, as WriteFileAtomically uses it.
std::string TemporaryPathOf(const std::string& path);
// If `name` is the name of a temporary file of WriteFileAtomically, returns the final name of that
// file; else "". A temporary file remains if the process dies while it writes.
std::string_view NameWithoutTemporarySuffix(std::string_view name);

// Reads all bytes of a regular file from the machine's file system. kBadData if the file is longer
// than `max_bytes`, is not a regular file, or cannot be read.
Result<std::string> ReadWholeFile(const std::string& path, uint64_t max_bytes = UINT64_MAX);

// Reads up to `max_bytes` bytes of a file, pipe or terminal. kBadData if it cannot be read, or a
// pipe delivers nothing for `timeout`. A terminal has no timeout, because a person types there.
Result<std::string> ReadAtMost(const std::string& path, uint64_t max_bytes, Time timeout);

}  // namespace tern
