#include "worker/engine/cpu/program.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "common/base/logging.h"

namespace tern::engine {

using dnnl::memory;

namespace {

constexpr size_t kHugePageBytes = size_t{1} << 21;

}  // namespace

Program::Program() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

dnnl::primitive_attr Program::Attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Value Program::NewValue(const memory::desc& desc) {
  return {desc, plan_.AddBuffer(desc.get_size()), nullptr};
}

Value Program::Convert(const Value& source, const memory::desc& desc) {
  if (DescribeSameBytes(source.desc, desc))
    return {desc, source.buffer, source.caller_address, source.is_shared};
  const Value converted = NewValue(desc);
  Copy(source, converted);
  return converted;
}

void Program::Copy(const Value& source, const Value& target) {
  const dnnl::reorder::primitive_desc desc(engine_, source.desc, engine_, target.desc,
                                           Attributes());
  Run<dnnl::reorder>(desc, {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}});
}

Value Program::AddSum(const Value& a, const Value& b) {
  const Value sum = NewValue(a.desc);
  const dnnl::binary::primitive_desc desc({dnnl::algorithm::binary_add, a.desc, a.desc, a.desc},
                                          Attributes(), engine_);
  Run<dnnl::binary>(
      desc, {{DNNL_ARG_SRC_0, a}, {DNNL_ARG_SRC_1, Convert(b, a.desc)}, {DNNL_ARG_DST, sum}});
  return sum;
}

void Program::AddPrimitive(dnnl::primitive primitive, const memory::desc& scratchpad,
                           const Arguments& arguments) {
  Step step;
  step.primitive = std::move(primitive);
  for (const auto& [kind, value] : arguments) step.arguments.push_back({kind, value, {}});
  if (scratchpad.get_size() > 0) {
    step.arguments.push_back({DNNL_ARG_SCRATCHPAD, NewValue(scratchpad), {}});
  }
  AddStep(std::move(step));
}

void Program::Call(const std::vector<Value>& values, Function function) {
  Step step;
  for (const Value& value : values) step.arguments.push_back({0, value, {}});
  step.function = std::move(function);
  AddStep(std::move(step));
}

void Program::AddMark(int64_t Step::*mark, uint32_t p) {
  Step step;
  step.*mark = p;
  AddStep(std::move(step));
}

void Program::AddStep(Step step) {
  const int step_number = static_cast<int>(steps_.size());
  for (const Argument& argument : step.arguments) {
    if (argument.value.buffer >= 0) plan_.RecordUse(argument.value.buffer, step_number);
  }
  steps_.push_back(std::move(step));
}

void Program::FreeArena::operator()(std::byte* arena) const { std::free(arena); }

void Program::Bind() {
  const size_t arena_bytes = plan_.AssignOffsets();
  const size_t padded_bytes = (arena_bytes / kHugePageBytes + 1) * kHugePageBytes;
  arena_.reset(static_cast<std::byte*>(std::aligned_alloc(kHugePageBytes, padded_bytes)));
  if (!arena_) throw std::bad_alloc();
  // Huge pages reduce TLB misses. An error is ignored: the memory works with normal pages, too.
  madvise(arena_.get(), padded_bytes, MADV_HUGEPAGE);
  std::memset(arena_.get(), 0, arena_bytes);
  for (Step& step : steps_) BindStep(&step);
}

void Program::BindStep(Step* step) {
  for (Argument& argument : step->arguments) {
    const Value& value = argument.value;
    void* address = value.caller_address;
    if (value.buffer >= 0) address = arena_.get() + plan_.OffsetOf(value.buffer);
    step->data.push_back(static_cast<float*>(address));
    if (step->function) continue;
    argument.memory = memory(value.desc, engine_, address);
    step->bound_arguments.push_back({argument.kind, argument.memory.get()});
  }
}

void Program::RunStep(const Step& step) {
  if (step.function) return step.function(step.data);
  // Calls the C function of oneDNN, because its C++ function builds a map of the arguments at every
  // call.
  const dnnl_status_t execute_status = dnnl_primitive_execute(
      step.primitive.get(), stream_.get(), static_cast<int>(step.bound_arguments.size()),
      step.bound_arguments.data());
  CHECK_EQ(execute_status, dnnl_success) << "oneDNN refused to run a step that it had planned";
}

void Program::RunForward(const std::function<bool(uint32_t p)>& need) {
  for (size_t i = 0; i < backward_begin_; ++i) {
    if (steps_[i].read_parameter < 0) {
      RunStep(steps_[i]);
    } else if (need && !need(static_cast<uint32_t>(steps_[i].read_parameter))) {
      return;
    }
  }
}

void Program::RunBackward(const std::function<void(uint32_t p)>& ready) {
  for (size_t i = backward_begin_; i < steps_.size(); ++i) {
    if (steps_[i].ready_parameter < 0) {
      RunStep(steps_[i]);
    } else if (ready) {
      ready(static_cast<uint32_t>(steps_[i].ready_parameter));
    }
  }
}

namespace {

// Returns the strides of a layout without blocks, or with a single block that contains all
// channels; returns no strides for other layouts.
memory::dims PlainStrides(const memory::desc& desc) {
  if (desc.data.format_kind != dnnl_blocked) return {};
  const dnnl_blocking_desc_t& blocking = desc.data.format_desc.blocking;
  memory::dims strides(blocking.strides, blocking.strides + desc.data.ndims);
  if (blocking.inner_nblks == 0) return strides;
  const bool is_one_block = blocking.inner_nblks == 1 && blocking.inner_idxs[0] == 1 &&
                            blocking.inner_blks[0] == desc.data.dims[1];
  if (!is_one_block) return {};
  strides[1] = 1;
  return strides;
}

}  // namespace

bool DescribeSameBytes(const memory::desc& a, const memory::desc& b) {
  if (a == b) return true;
  const dnnl_memory_desc_t& a_data = a.data;
  const dnnl_memory_desc_t& b_data = b.data;
  if (a_data.ndims != b_data.ndims || a_data.data_type != b_data.data_type ||
      a_data.offset0 != b_data.offset0)
    return false;
  const memory::dims a_strides = PlainStrides(a), b_strides = PlainStrides(b);
  if (a_strides.empty() || b_strides.empty()) return false;
  for (int i = 0; i < a_data.ndims; ++i) {
    if (a_data.dims[i] != b_data.dims[i]) return false;
    if (a_data.dims[i] > 1 && a_strides[i] != b_strides[i]) return false;
  }
  return true;
}

memory::desc DescOf(const memory::dims& dims, memory::format_tag tag, memory::data_type type) {
  return memory::desc(dims, type, tag);
}

bool IsReferenceImplementation(const dnnl::primitive_desc_base& desc) {
  return std::string_view(desc.impl_info_str()).find("ref") != std::string_view::npos;
}

}  // namespace tern::engine
