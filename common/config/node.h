// The syntax tree of a job, before its keys are interpreted. YAML and protobuf text are both parsed
// into this tree; fill.cc interprets the tree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/config/faults.h"

namespace tern::config {

// Limits on the input.
constexpr size_t kMaxTextBytes = size_t{1} << 20;  // bytes of a file
constexpr size_t kMaxNodes = 10000;                // keys and values
constexpr size_t kMaxDepth = 16;                   // levels of nesting; a job has at most 8

struct Node {
  enum class Kind { kNull, kScalar, kMap, kList };
  Kind kind = Kind::kNull;
  Position position;
  std::string text;             // of a kScalar: the value, without quotes
  bool is_quoted = false;       // of a kScalar: whether it was written in quotes
  bool is_text_format = false;  // from protobuf text, where a repeated field may repeat its key
  bool has_fault = false;       // the node has a fault that was already reported
  std::vector<Node> keys;   // of a kMap: the keys, as kScalar nodes; keys[i] belongs to items[i]
  std::vector<Node> items;  // of a kMap or kList: the values
};

// The dotted name of a key or list item, as messages write it: "servers[0].address".
inline std::string Join(const std::string& parent, std::string_view key) {
  return parent.empty() ? std::string(key) : parent + "." + std::string(key);
}
inline std::string Join(const std::string& parent, size_t index) {
  return parent + "[" + std::to_string(index) + "]";
}

}  // namespace tern::config
