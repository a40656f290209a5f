#include "tools/run/program_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/text.h"

namespace tern::tools {

std::string TakeLines(const std::string& prefix, std::string* text) {
  constexpr size_t kMaxLineBytes = 64 << 10;
  std::string lines;
  size_t begin = 0;
  while (begin < text->size()) {
    const size_t newline = text->find('\n', begin);
    const bool is_whole = newline != std::string::npos && newline - begin <= kMaxLineBytes;
    if (!is_whole && text->size() - begin <= kMaxLineBytes) break;
    const size_t end = is_whole ? newline : begin + kMaxLineBytes;
    std::string line = text->substr(begin, end - begin);
    while (line.ends_with('\r')) line.pop_back();
    if (const size_t overwritten = line.rfind('\r'); overwritten != std::string::npos)
      line.erase(0, overwritten + 1);
    lines += prefix + line + "\n";
    begin = is_whole ? end + 1 : end;
  }
  text->erase(0, begin);
  return lines;
}

void PrintLines(const std::string& prefix, bool is_stderr, std::string lines,
                TerminalLine* stdout_line) {
  const std::string text = TakeLines(prefix, &lines);
  stdout_line->Erase();
  (is_stderr ? StderrLine() : *stdout_line).Print(text);
}

Status ProgramOutput::Add(const ProcessSpec& spec, uint64_t stdout_size, uint64_t stderr_size) {
  for (const bool is_stderr : {false, true}) {
    const std::string& path = is_stderr ? spec.stderr_path : spec.stdout_path;
    auto file = std::make_unique<File>(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file->fd() < 0)
      return Status(Code::kCannotWrite, Cat("cannot read ", path, ": ", std::strerror(errno)));
    const auto begin = static_cast<off_t>(is_stderr ? stderr_size : stdout_size);
    streams_.push_back({spec, is_stderr, std::move(file), begin, {}});
  }
  return Ok();
}

void ProgramOutput::PrintNew() {
  for (Stream& stream : streams_) {
    if (is_read_ != nullptr && !is_read_()) return;
    PrintNew(&stream, false);
  }
}

void ProgramOutput::Finish(const ProcessSpec& spec) {
  for (Stream& stream : streams_) {
    if (stream.spec.name == spec.name) PrintNew(&stream, true);
  }
}

void ProgramOutput::PrintNew(Stream* stream, bool is_finished) {
  // A program may write faster than this, and the supervisor has more to do.
  constexpr int kMaxReads = 64;
  std::array<char, 65536> buffer;
  ssize_t bytes_read = 0;
  int num_reads = 0;
  do {
    bytes_read = pread(stream->file->fd(), buffer.data(), buffer.size(), stream->offset);
    if (bytes_read > 0) stream->rest.append(buffer.data(), static_cast<size_t>(bytes_read));
    stream->offset += std::max<ssize_t>(0, bytes_read);
    if (bytes_read <= 0 && is_finished && !stream->rest.empty()) stream->rest += '\n';
    std::string lines = TakeLines("", &stream->rest);
    if (!lines.empty()) print_(stream->spec, stream->is_stderr, std::move(lines));
  } while (bytes_read > 0 && (is_finished || ++num_reads < kMaxReads));
}

}  // namespace tern::tools
