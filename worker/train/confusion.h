// How often each class of the test set was taken for each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tern::train {

// [true class, predicted class], row-major; empty where nothing was counted.
using Confusion = std::vector<uint64_t>;

// FOLDER/confusion.csv: a row a true class, a column a predicted one, their numbers first. Makes
// the folder. REQUIRES counts.size() = classes^2. kCannotWrite if the system refuses.
Status WriteConfusion(const std::string& folder, const Confusion& counts, uint32_t classes);

}  // namespace tern::train
