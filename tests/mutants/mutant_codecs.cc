// Linked into a daemon with the linker's --wrap for codec::MakeCodec, it plants one fault in codec
// ternary: the fault that TERN_FAULT names. The daemon is otherwise the one that users have.
#include "common/codec/codecs.h"
#include "tests/common/codec/faulty_codecs.h"

namespace tern::codec {

using Made = Result<std::unique_ptr<Codec>>;

// The linker gives the name MakeCodec of all callers to the second of these, and that of
// common/codec/codecs.cc to the first.
Made CorrectCodec(std::string_view name, const Options& options) asm("__real_" TERN_MAKE_CODEC);
Made FaultyCodec(std::string_view name, const Options& options) asm("__wrap_" TERN_MAKE_CODEC);

Made FaultyCodec(std::string_view name, const Options& options) {
  Made codec = CorrectCodec(name, options);
  if (!codec.ok() || name != "ternary") return codec;
  return TERN_FAULT(std::move(*codec));
}

}  // namespace tern::codec
