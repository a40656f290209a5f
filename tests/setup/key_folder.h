// A folder with key files, for tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/net/keys.h"

namespace tern::setup {

// The destructor removes the folder.
class KeyFolder {
 public:
  KeyFolder() {
    std::string path = testing::TempDir() + "tern_keys_XXXXXX";
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    path_ = path;
  }
  ~KeyFolder() { std::filesystem::remove_all(path_); }
  KeyFolder(const KeyFolder&) = delete;
  KeyFolder& operator=(const KeyFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file and returns its path.
  std::string Write(const std::string& name, const std::string& text, unsigned mode = 0600) const {
    std::ofstream(*this / name, std::ios::binary) << text;
    std::filesystem::permissions(*this / name, std::filesystem::perms(mode));
    return *this / name;
  }

 private:
  std::string path_;
};

inline std::string SecretText(const net::SecretKey& secret) {
  const net::KeyText text = net::ToText(secret);
  return {text.begin(), text.end()};
}

}  // namespace tern::setup
