#include "tools/sweep/grid.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/base/hash.h"
#include "common/base/text.h"

namespace tern::tools {
namespace {

constexpr size_t kMaxFolderName = 120;

// Splits at the commas outside brackets, braces and quotes.
std::vector<std::string> SplitValues(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (c == ',' && depth == 0 && quote == 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return values;
}

// The last `num_parts` of the parts of a key between dots.
std::string EndOfKey(const std::string& key, size_t num_parts) {
  size_t begin = key.size();
  for (size_t part = 0; part < num_parts && begin != std::string::npos; ++part)
    begin = begin == 0 ? std::string::npos : key.rfind('.', begin - 1);
  return begin == std::string::npos ? key : key.substr(begin + 1);
}

}  // namespace

Result<GridKey> ParseGridKey(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos) {
    return Status(Code::kUsage, Cat("--grid ", text,
                                    ": saw no KEY=VALUE,VALUE,...; write for example --grid "
                                    "train.schedule.learning_rate=0.01,0.1"));
  }
  GridKey key = {text.substr(0, equals), SplitValues(std::string_view(text).substr(equals + 1))};
  for (size_t i = 0; i < key.values.size(); ++i) {
    const std::string& value = key.values[i];
    if (value.empty())
      return Status(Code::kUsage, Cat("--grid ", text, ": value ", i + 1, " is empty"));
    if (std::count(key.values.begin(), key.values.end(), value) > 1)
      return Status(Code::kUsage, Cat("--grid ", text, ": saw the value ", value, " twice"));
  }
  return key;
}

std::vector<SweepRun> RunsOf(const std::vector<GridKey>& grid, uint64_t num_seeds) {
  std::vector<SweepRun> runs(1);
  for (const GridKey& key : grid) {
    std::vector<SweepRun> longer_runs;
    for (const SweepRun& run : runs) {
      for (const std::string& value : key.values) {
        longer_runs.push_back(run);
        longer_runs.back().values.push_back(value);
      }
    }
    runs = std::move(longer_runs);
  }
  if (num_seeds == 0) return runs;
  std::vector<SweepRun> seeded_runs;
  for (SweepRun& run : runs) {
    for (run.seed = 1; run.seed <= num_seeds; ++run.seed) seeded_runs.push_back(run);
  }
  return seeded_runs;
}

std::vector<std::string> OverridesOf(const std::vector<GridKey>& grid, const SweepRun& run) {
  std::vector<std::string> overrides;
  for (size_t i = 0; i < grid.size(); ++i)
    overrides.push_back(Cat(grid[i].key, "=", run.values[i]));
  if (run.seed != 0) overrides.push_back(Cat("seed=", run.seed));
  return overrides;
}

std::vector<std::string> ShortNames(const std::vector<GridKey>& grid) {
  std::vector<std::string> names;
  for (const GridKey& key : grid) {
    size_t num_parts = 1;
    const auto is_shared = [&] {
      const std::string name = EndOfKey(key.key, num_parts);
      return std::any_of(grid.begin(), grid.end(), [&](const GridKey& other) {
        return other.key != key.key && EndOfKey(other.key, num_parts) == name;
      });
    };
    while (is_shared() && EndOfKey(key.key, num_parts) != key.key) ++num_parts;
    names.push_back(EndOfKey(key.key, num_parts));
  }
  return names;
}

std::string FolderOf(const std::vector<GridKey>& grid, const SweepRun& run) {
  const std::vector<std::string> names = ShortNames(grid);
  std::vector<std::string> parts;
  for (size_t i = 0; i < grid.size(); ++i) parts.push_back(Cat(names[i], "=", run.values[i]));
  if (run.seed != 0) parts.push_back(Cat("seed=", run.seed));
  const std::string exact_name = Join(parts, ",");
  std::string name = exact_name.substr(0, kMaxFolderName);
  for (char& c : name) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                          (c >= 'A' && c <= 'Z') ||
                          std::string_view("=,._-+").find(c) != std::string_view::npos;
    if (!is_plain) c = '_';
  }
  return name == exact_name ? name : Cat(name, "-", Hex(Digest(exact_name)));
}

}  // namespace tern::tools
