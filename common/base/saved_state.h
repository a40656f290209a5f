// What an object has to save: named arrays and numbers, where they lie, to be read and to be
// written back.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tern {

// Belongs to the object that added to it. Names and sizes are the same whenever it is asked.
struct SavedState {
  struct Array {
    std::string name;
    std::span<float> values;
  };
  struct Number {
    std::string name;
    uint64_t* value;
  };
  std::vector<Array> arrays;
  std::vector<Number> numbers;
};

}  // namespace tern
