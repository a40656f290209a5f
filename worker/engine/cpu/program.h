// A net on the CPU as a list of steps, which use buffers in one block of memory (the arena). When
// the net is planned, layers append their steps (layer.h); then the program only runs them.
// Internal to the CPU engine, because this header exposes oneDNN. The order of calls:
//
//   { NewValue, Convert, Copy, AddSum, InPlaceOrNew, Run, Call, MarkRead }*  -> EndForward
//   -> { the same, MarkReady }* -> Bind -> { RunForward -> RunBackward? }*
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "worker/engine/memory_plan.h"
#include "worker/engine/net.h"

namespace tern::engine {

// A tensor that steps read or write.
struct Value {
  dnnl::memory::desc desc;  // Its shape, type and memory layout.
  int buffer = -1;          // The number of its buffer in the arena; -1 if it is not in the arena.
  float* caller_address = nullptr;  // Its address, if it is in the caller's memory.
  // For a gradient: whether several steps read it, so that none of them may overwrite it.
  bool is_shared = false;
};

// The input and result of one RunForward.
struct ForwardIo {
  Net::Feed feed;
  Score score;
};

class Program {
 public:
  // The arguments of a oneDNN primitive: pairs of a constant DNNL_ARG_... and a value.
  using Arguments = std::vector<std::pair<int, Value>>;
  // A step that is a C++ function. `data`: the addresses of the values that were passed to Call, in
  // the same order.
  using Function = std::function<void(const std::vector<float*>& data)>;

  Program();

  const dnnl::engine& engine() const { return engine_; }
  // The attributes that every primitive of the program must have: they make the primitive's scratch
  // memory a buffer of the arena.
  static dnnl::primitive_attr Attributes();

  // Adds a buffer to the arena.
  Value NewValue(const dnnl::memory::desc& desc);
  // Returns `source` in the layout `desc`: the same memory if it has that layout, else a reordered
  // copy.
  Value Convert(const Value& source, const dnnl::memory::desc& desc);
  // Appends a step that copies `source` to `target`, in the layout of `target`.
  void Copy(const Value& source, const Value& target);
  // Appends a step that computes a + b, in the layout of `a`.
  Value AddSum(const Value& a, const Value& b);
  // Returns where an element-wise step on `value` writes its result: `value` itself if the step may
  // overwrite that, else a new buffer.
  Value InPlaceOrNew(const Value& value) {
    return value.is_shared || value.buffer < 0 ? NewValue(value.desc) : value;
  }

  // Appends a step that runs a oneDNN primitive.
  template <typename Primitive>
  void Run(const typename Primitive::primitive_desc& desc, const Arguments& arguments) {
    AddPrimitive(Primitive(desc), desc.scratchpad_desc(), arguments);
  }
  // Appends a step that calls a function with the addresses of the values.
  void Call(const std::vector<Value>& values, Function function);
  // MarkRead says that steps appended later read parameter number p; MarkReady, that the gradient
  // of parameter p is final after the steps so far.
  void MarkRead(uint32_t p) { AddMark(&Step::read_parameter, p); }
  void MarkReady(uint32_t p) { AddMark(&Step::ready_parameter, p); }

  // Says that the forward pass is complete; steps appended later belong to the backward pass.
  void EndForward() { backward_begin_ = steps_.size(); }
  // Allocates the arena and assigns addresses to all values. Throws std::bad_alloc if there is not
  // enough memory, dnnl::error if oneDNN fails.
  void Bind();

  // The input and result of the forward pass, which steps read and write.
  ForwardIo& io() { return io_; }
  // Runs the forward steps. Calls `need(p)`, if set, before the first step that reads parameter p;
  // ends the pass if `need` returns false.
  void RunForward(const std::function<bool(uint32_t p)>& need);
  // Runs the backward steps. Calls `ready(p)`, if set, when the gradient of parameter p is final.
  void RunBackward(const std::function<void(uint32_t p)>& ready);

 private:
  struct Argument {
    int kind = 0;  // DNNL_ARG_...
    Value value;
    dnnl::memory memory;  // Set by Bind.
  };
  // A step runs a primitive or a function, or it is a mark. In a mark, `read_parameter` or
  // `ready_parameter` is the number of a parameter.
  struct Step {
    dnnl::primitive primitive;
    std::vector<Argument> arguments;
    // The arguments as oneDNN's C function takes them; set by Bind.
    std::vector<dnnl_exec_arg_t> bound_arguments;
    Function function;
    std::vector<float*> data;  // The arguments of the function; set by Bind.
    int64_t read_parameter = -1, ready_parameter = -1;
  };
  struct FreeArena {
    void operator()(std::byte* arena) const;
  };

  void AddPrimitive(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad,
                    const Arguments& arguments);
  void AddStep(Step step);
  void AddMark(int64_t Step::*mark, uint32_t p);
  void BindStep(Step* step);
  void RunStep(const Step& step);

  dnnl::engine engine_;
  dnnl::stream stream_;
  MemoryPlan plan_;
  std::vector<Step> steps_;
  size_t backward_begin_ = 0;  // The number of the first step of the backward pass.
  std::unique_ptr<std::byte, FreeArena> arena_;
  ForwardIo io_;
};

// Whether `a` and `b` describe the same bytes: they have the same shape, type and offset, and the
// same strides in all dimensions longer than 1. An image with channels in blocks, but only one
// block, has the same bytes as with channels last.
bool DescribeSameBytes(const dnnl::memory::desc& a, const dnnl::memory::desc& b);

// Returns the descriptor of a tensor whose layout is `tag`.
dnnl::memory::desc DescOf(const dnnl::memory::dims& dims, dnnl::memory::format_tag tag,
                          dnnl::memory::data_type type = dnnl::memory::data_type::f32);

// The layout with channels in blocks of 16.
constexpr auto kBlocked = dnnl::memory::format_tag::aBcd16b;

// The memory layout of activations: channels in blocks of 16 if their number is a multiple of 16,
// because most of oneDNN's fastest kernels need that; else channels last.
inline dnnl::memory::format_tag ActivationTag(dnnl::memory::dim channels) {
  return channels % 16 == 0 ? kBlocked : dnnl::memory::format_tag::nhwc;
}
inline dnnl::memory::desc ActivationDesc(const dnnl::memory::dims& dims) {
  return DescOf(dims, ActivationTag(dims[1]));
}

// Whether oneDNN would use its slow reference implementation for the primitive.
bool IsReferenceImplementation(const dnnl::primitive_desc_base& desc);

}  // namespace tern::engine
