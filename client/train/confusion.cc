#include "client/train/confusion.h"

#include <sstream>

#include "common/base/atomic_file.h"

namespace tern::client {

Status WriteConfusion(const std::string& folder, const Confusion& counts, uint32_t classes) {
  std::ostringstream file;
  file << "true";
  for (uint32_t c = 0; c < classes; ++c) file << "," << c;
  file << "\n";
  for (uint32_t row = 0; row < classes; ++row) {
    file << row;
    for (uint32_t c = 0; c < classes; ++c) file << "," << counts[size_t{row} * classes + c];
    file << "\n";
  }
  (void)Disk().CreateFolders(folder);  // If that fails, the write below fails, too.
  return WriteFileAtomically(folder + "/confusion.csv", file.str());
}

}  // namespace tern::client
