#include "client/train/confusion.h"

#include <sstream>

#include "common/base/atomic_file.h"
#include "common/base/text.h"

namespace tern::client {

namespace {

// A cell of a CSV file (RFC 4180).
std::string Cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

// `name` with its control characters and backslashes as \xNN.
std::string OnOneLine(const std::string& name) {
  std::string line;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    line += byte < 0x20 || byte == 0x7f || c == '\\' ? Printable({&c, 1}) : std::string(1, c);
  }
  return line;
}

}  // namespace

Status WriteConfusion(const std::string& folder, const std::string& name, const Confusion& counts,
                      uint32_t classes, const std::vector<std::string>& names) {
  const auto name_of = [&](uint32_t c) { return c < names.size() ? Cell(names[c]) : Cat(c); };
  std::ostringstream file;
  file << "true";
  for (uint32_t c = 0; c < classes; ++c) file << "," << name_of(c);
  file << "\n";
  for (uint32_t row = 0; row < classes; ++row) {
    file << name_of(row);
    for (uint32_t c = 0; c < classes; ++c) file << "," << counts[size_t{row} * classes + c];
    file << "\n";
  }
  (void)Disk().CreateFolders(folder);  // If that fails, the write below fails, too.
  return WriteFileAtomically(folder + "/" + name, file.str());
}

Status WriteClasses(const std::string& folder, const std::vector<std::string>& names) {
  const std::string path = folder + "/classes.txt";
  if (names.empty()) {
    Disk().Remove(path);
    return Ok();
  }
  std::string lines;
  for (const std::string& name : names) lines += OnOneLine(name) + "\n";
  (void)Disk().CreateFolders(folder);  // If that fails, the write below fails, too.
  return WriteFileAtomically(path, lines);
}

}  // namespace tern::client
