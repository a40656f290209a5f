#include "client/train/confusion.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/base/text.h"

namespace tern::client {

Status WriteConfusion(const std::string& folder, const Confusion& counts, uint32_t classes) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = folder + "/confusion.csv";
  std::ofstream file(path);
  file << "true";
  for (uint32_t c = 0; c < classes; ++c) file << "," << c;
  file << "\n";
  for (uint32_t row = 0; row < classes; ++row) {
    file << row;
    for (uint32_t c = 0; c < classes; ++c) file << "," << counts[size_t{row} * classes + c];
    file << "\n";
  }
  file.close();
  if (!file)
    return Status(Code::kCannotWrite, Cat("cannot write ", path, ": ", std::strerror(errno)));
  return Ok();
}

}  // namespace tern::client
