// The confusion matrix of the test set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::client {

// How many samples have each pair [true class, predicted class], row-major; empty if nothing was
// counted.
using Confusion = std::vector<uint64_t>;

// Writes FOLDER/confusion.csv: one row per true class, one column per predicted class, with the
// classes' numbers in the first column and row. Creates the folder. REQUIRES counts.size() =
// classes^2. kCannotWrite if the system refuses.
Status WriteConfusion(const std::string& folder, const Confusion& counts, uint32_t classes);

}  // namespace tern::client
