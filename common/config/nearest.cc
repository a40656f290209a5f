#include "common/config/nearest.h"

#include <algorithm>

namespace tern::config {

size_t EditDistance(std::string_view a, std::string_view b) {
  // Row i holds the distances from a[0, i) to every b[0, j). A swap needs the row two above.
  std::vector<size_t> two_above(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    two_above.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two_above[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

namespace {

std::string WithoutDigits(std::string_view text) {
  std::string rest;
  for (const char c : text) {
    if (c < '0' || c > '9') rest += c;
  }
  return rest;
}

// resnet34 is another network than resnet32, not a misspelling of it.
bool DifferOnlyInNumbers(std::string_view a, std::string_view b) {
  const std::string a_rest = WithoutDigits(a), b_rest = WithoutDigits(b);
  return a_rest == b_rest && a_rest.size() < a.size() && b_rest.size() < b.size();
}

}  // namespace

std::string NearestName(std::string_view name, const std::vector<std::string>& known) {
  std::string nearest_name;
  if (name.size() > 64) return nearest_name;
  // A known name that differs from `name` in every letter has at least this distance: not near.
  size_t best_distance = name.size();
  for (const std::string& candidate : known) {
    if (DifferOnlyInNumbers(name, candidate)) continue;
    const size_t distance = EditDistance(name, candidate);
    if (distance < best_distance && distance <= std::max<size_t>(2, candidate.size() / 3)) {
      best_distance = distance;
      nearest_name = candidate;
    }
  }
  return nearest_name;
}

}  // namespace tern::config
