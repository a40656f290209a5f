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

Status ProgramOutput::Add(const ProcessSpec& spec) {
  const std::string rank = spec.name.substr(spec.name.rfind(' ') + 1);
  for (const bool is_stderr : {false, true}) {
    const std::string& path = is_stderr ? spec.stderr_path : spec.stdout_path;
    auto file = std::make_unique<File>(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file->fd() < 0)
      return Status(Code::kCannotWrite, Cat("cannot read ", path, ": ", std::strerror(errno)));
    streams_.push_back({spec.name, Cat("[", rank, "] "), is_stderr, std::move(file), 0, {}});
  }
  return Ok();
}

void ProgramOutput::Print() {
  for (Stream& stream : streams_) Print(&stream, false);
}

void ProgramOutput::Finish(const ProcessSpec& spec) {
  for (Stream& stream : streams_) {
    if (stream.name == spec.name) Print(&stream, true);
  }
}

void ProgramOutput::Print(Stream* stream, bool is_finished) {
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
    const std::string lines = TakeLines(stream->prefix, &stream->rest);
    if (lines.empty()) continue;
    if (stream->is_stderr) {
      stdout_line_.Erase();
      StderrLine().Print(lines);
    } else {
      stdout_line_.Erase();
      stdout_line_.Print(lines);
    }
  } while (bytes_read > 0 && (is_finished || ++num_reads < kMaxReads));
}

}  // namespace tern::tools
