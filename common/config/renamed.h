// Keys that had another name once. They are refused under it, with the new one in the sentence.
#pragma once

#include <string_view>

namespace tern::config {

// The key that `key` is called now; empty: it never was another key's name.
std::string_view NameNow(std::string_view key);

}  // namespace tern::config
