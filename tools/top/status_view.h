// The status of a job as lines of text, for a terminal: made from the JSON that server shard 0
// serves (docs/WATCHING.md). What the JSON says is not trusted: wrong types are shown as unknown,
// and no byte but printable ASCII comes out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::tools {

// By what the workers are sorted.
enum class SortKey { kRank, kState, kSpeed, kSilence };
inline constexpr SortKey kLastSortKey = SortKey::kSilence;
const char* NameOf(SortKey key);

enum class LineKind { kTitle, kText, kAlarm, kHeading, kRow, kBadRow };
struct ViewLine {
  std::string text;
  LineKind kind = LineKind::kText;
};

struct ViewOptions {
  size_t columns = 80;  // at least 80
  size_t rows = 0;      // how many lines fit; 0: any number
  SortKey sort = SortKey::kRank;
};

// kBadData: the text is not the status of a job.
Result<std::vector<ViewLine>> ViewStatus(const std::string& status_json,
                                         const ViewOptions& options);

}  // namespace tern::tools
