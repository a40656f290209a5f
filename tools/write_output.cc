#include "tools/write_output.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "common/base/atomic_file.h"
#include "common/base/text.h"

namespace tern::tools {

Status WriteOutput(const std::string& path, std::string_view bytes) {
  std::error_code error;
  const std::filesystem::file_status target = std::filesystem::status(path, error);
  if (!std::filesystem::exists(target)) return WriteFileAtomically(path, bytes);
  if (std::filesystem::is_regular_file(target)) {
    const std::filesystem::path file = std::filesystem::canonical(path, error);
    return WriteFileAtomically(error ? path : file.string(), bytes);
  }
  errno = 0;
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return Ok();
  return Status(Code::kCannotWrite, Cat("cannot write ", path, ": ", std::strerror(errno)));
}

}  // namespace tern::tools
