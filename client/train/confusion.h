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

// Writes FOLDER/NAME: one row per true class, one column per predicted class, with the
// classes' names in the first column and row. `names`: by class; a class without a name has its
// number. Creates the folder. REQUIRES counts.size() = classes^2. kCannotWrite if the system
// refuses.
Status WriteConfusion(const std::string& folder, const std::string& name, const Confusion& counts,
                      uint32_t classes, const std::vector<std::string>& names);

// Writes FOLDER/classes.txt: the name of class n in line n, counted from 0, so that whoever uses
// the weights knows which output is which class. Does nothing without names. Otherwise as
// WriteConfusion.
Status WriteClasses(const std::string& folder, const std::vector<std::string>& names);

}  // namespace tern::client
