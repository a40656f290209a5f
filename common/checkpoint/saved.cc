#include "common/checkpoint/saved.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>

#include "common/base/text.h"

namespace tern::checkpoint {

namespace {

std::optional<uint64_t> ParseNumber(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

void AddSavedState(const SavedState& state, std::vector<tensors::TensorView>* tensors,
                   tensors::Metadata* metadata) {
  for (const SavedState::Array& array : state.arrays)
    tensors->push_back({array.name, {array.values.size()}, array.values});
  for (const SavedState::Number& number : state.numbers)
    (*metadata)[number.name] = std::to_string(*number.value);
}

Status RestoreState(const tensors::TensorFile& file, const SavedState& state) {
  std::map<std::string, const tensors::Tensor*> tensor_by_name;
  for (const tensors::Tensor& tensor : file.tensors) tensor_by_name[tensor.name] = &tensor;
  for (const SavedState::Array& array : state.arrays) {
    const auto found = tensor_by_name.find(array.name);
    if (found == tensor_by_name.end() || found->second->values.size() != array.values.size())
      return Status(Code::kBadData,
                    Cat("it has no ", array.name, " of ", array.values.size(), " values"));
  }
  std::vector<uint64_t> numbers;
  for (const SavedState::Number& number : state.numbers) {
    const auto found = file.metadata.find(number.name);
    const std::optional<uint64_t> value =
        found == file.metadata.end() ? std::nullopt : ParseNumber(found->second);
    if (!value.has_value()) return Status(Code::kBadData, Cat("it has no number ", number.name));
    numbers.push_back(*value);
  }
  for (const SavedState::Array& array : state.arrays) {
    const std::vector<float>& values = tensor_by_name[array.name]->values;
    std::copy(values.begin(), values.end(), array.values.begin());
  }
  for (size_t i = 0; i < numbers.size(); ++i) *state.numbers[i].value = numbers[i];
  return Ok();
}

}  // namespace tern::checkpoint
