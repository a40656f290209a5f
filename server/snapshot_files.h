// Names of snapshot files, and the thread that writes them (see snapshot.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "server/snapshot.h"

namespace tern::server {

// Of the files with this lane's names, whatever is in them; rising.
std::vector<uint64_t> StepsOfFiles(const SnapshotOwner& owner);
void RemoveSnapshot(const SnapshotOwner& owner, uint64_t step);
// What a process that died has left under another name.
void RemoveHalfWritten(const SnapshotOwner& owner);
// kBadData: not readable, not whole or not of this job, run and step.
Result<tensors::TensorFile> ReadSnapshot(const SnapshotOwner& owner, uint64_t step);
// Decimal digits and nothing else.
std::optional<uint64_t> ParseNumber(std::string_view text);

}  // namespace tern::server
