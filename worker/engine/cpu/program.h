// A net as a flat list of steps over one arena. Layers append steps once (layer.h); then the
// program only runs. Internal to the CPU engine, because it exposes oneDNN.
//
//   { NewValue, Convert, Run, Call, MarkRead }*  -> EndForward -> { the same, MarkReady }* -> Bind
//   -> { RunForward -> RunBackward? }*
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

// An array in some layout: a buffer of the arena, or the caller's memory.
struct Value {
  dnnl::memory::desc desc;
  int buffer = -1;
  float* outside = nullptr;
  bool shared = false;  // a gradient with several readers: must not be written in place
};

// The input and result of one RunForward.
struct ForwardIo {
  Net::Feed feed;
  Score score;
};

class Program {
 public:
  using Arguments = std::vector<std::pair<int, Value>>;  // DNNL_ARG_... -> value
  // Gets the addresses of the values passed to Call, in order.
  using Function = std::function<void(const std::vector<float*>& data)>;

  Program();

  const dnnl::engine& engine() const { return engine_; }
  // For every primitive: Program provides its scratch memory, from the arena.
  static dnnl::primitive_attr Attributes();

  Value NewValue(const dnnl::memory::desc& desc);
  // `from` in another layout: the same memory if the layouts agree, else a reordered copy.
  Value Convert(const Value& from, const dnnl::memory::desc& desc);
  // Reorders into the given value.
  void Copy(const Value& from, const Value& to);
  // a + b, in a's layout.
  Value Add(const Value& a, const Value& b, const dnnl::primitive_attr& attributes);
  // The target of an element-wise step on `value`: in place, unless `value` is shared.
  Value InPlace(const Value& value) {
    return value.shared || value.buffer < 0 ? NewValue(value.desc) : value;
  }

  template <typename Primitive>
  void Run(const typename Primitive::primitive_desc& desc, const Arguments& arguments) {
    AddPrimitive(Primitive(desc), desc.scratchpad_desc(), arguments);
  }
  void Call(const std::vector<Value>& values, Function function);
  // MarkRead: the next step reads parameter p. MarkReady: the gradient of parameter p is final
  // after the steps so far.
  void MarkRead(uint32_t p) { AddMark(&Step::reads, p); }
  void MarkReady(uint32_t p) { AddMark(&Step::ready, p); }

  void EndForward() { backward_ = steps_.size(); }
  // Lays out the arena. Throws std::bad_alloc if memory does not suffice, dnnl::error if oneDNN
  // fails.
  void Bind();

  ForwardIo& batch() { return batch_; }
  // Calls `need(p)`, if set, before the step that reads parameter p; ends the pass if it returns
  // false.
  void RunForward(const std::function<bool(uint32_t p)>& need);
  void RunBackward(const std::function<void(uint32_t p)>& ready);

 private:
  struct Argument {
    int kind = 0;
    Value value;
    dnnl::memory memory;  // set by Bind
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<Argument> arguments;
    std::vector<dnnl_exec_arg_t> bound;  // set by Bind: the arguments of oneDNN's C function
    Function function;                   // instead of a primitive
    std::vector<float*> data;
    int64_t reads = -1, ready = -1;  // a mark instead of a primitive or function
  };
  struct Free {
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
  size_t backward_ = 0;  // first step of the backward pass
  std::unique_ptr<std::byte, Free> arena_;
  ForwardIo batch_;
};

// Whether both describe the same bytes: their strides agree in all dimensions longer than 1. A
// single block of channels is stored like channels last.
bool SameBytes(const dnnl::memory::desc& a, const dnnl::memory::desc& b);

// An array in a plain layout.
dnnl::memory::desc Plain(const dnnl::memory::dims& dims, dnnl::memory::format_tag tag,
                         dnnl::memory::data_type type = dnnl::memory::data_type::f32);

// Channels in blocks of 16.
constexpr auto kBlocked = dnnl::memory::format_tag::aBcd16b;

// The layout of activations: channels in blocks of 16 if their number is a multiple of 16, because
// most of the fastest kernels need that; else channels last.
inline dnnl::memory::format_tag ActivationTag(dnnl::memory::dim channels) {
  return channels % 16 == 0 ? kBlocked : dnnl::memory::format_tag::nhwc;
}
inline dnnl::memory::desc Activation(const dnnl::memory::dims& dims) {
  return Plain(dims, ActivationTag(dims[1]));
}

// Whether the descriptor's implementation is oneDNN's slow reference.
bool IsReference(const dnnl::primitive_desc_base& desc);

}  // namespace tern::engine
