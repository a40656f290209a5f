#include "tools/launch/host_list.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "common/base/text.h"

namespace tern::tools {
namespace {

constexpr uint32_t kMaxSlots = 100'000;  // The job's own limit is lower, and its message better.
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // Some editors begin files with it.
constexpr const char* kExpected =
    "expected HOST or HOST:SLOTS, an IPv6 address in brackets, as in: node0:2, user@node1, "
    "[fd00::1]:4";

Status HostError(const std::string& text, const std::string& why = "") {
  return Status(Code::kUsage, Cat("saw '", Printable(text), "'", why, "; ", kExpected));
}

bool ReadSlots(const std::string& text, uint32_t* slots) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *slots);
  return error == std::errc() && end == text.data() + text.size() && *slots <= kMaxSlots;
}

// ssh, and the shell behind it, get the name: it is no flag, and has nothing to quote.
bool IsName(const std::string& name) {
  const auto may_stand_in_a_name = [](unsigned char c) {
    return std::isalnum(c) != 0 || (c != 0 && std::string_view(".-_@:%").find(
                                                  static_cast<char>(c)) != std::string_view::npos);
  };
  return !name.empty() && name[0] != '-' && !name.ends_with('@') &&
         std::all_of(name.begin(), name.end(), may_stand_in_a_name);
}

// HOST or HOST:SLOTS.
Result<Host> ParseHost(const std::string& text) {
  Host host;
  const size_t bracket = text.find('['), closing = text.find(']');
  std::string rest;
  if (bracket != std::string::npos) {
    const std::string user = text.substr(0, bracket);
    if (closing == std::string::npos || closing < bracket || (!user.empty() && user.back() != '@'))
      return HostError(text);
    host.name = user + text.substr(bracket + 1, closing - bracket - 1);
    rest = text.substr(closing + 1);
  } else {
    const size_t colon = std::min(text.find(':'), text.size());
    if (std::count(text.begin(), text.end(), ':') > 1)
      return HostError(text, ", which has more than one colon and no brackets");
    host.name = text.substr(0, colon);
    rest = text.substr(colon);
  }
  if (!IsName(host.name)) return HostError(text);
  if (rest.empty()) return host;
  if (rest[0] != ':' || !ReadSlots(rest.substr(1), &host.slots)) return HostError(text);
  return host;
}

void Add(const Host& host, std::vector<Host>* hosts) {
  const auto known = std::find_if(hosts->begin(), hosts->end(),
                                  [&](const Host& other) { return other.name == host.name; });
  if (known == hosts->end()) {
    hosts->push_back(host);
  } else {
    known->slots += host.slots;
  }
}

// A line of a hostfile without its comment.
Result<Host> ParseLine(const std::string& line) {
  std::istringstream words(line);
  std::string first, word;
  words >> first;
  Result<Host> host = ParseHost(first);
  if (!host.ok()) return host;
  constexpr std::string_view kSlots = "slots=";
  while (words >> word) {
    const bool has_slots = first.ends_with(Cat(":", host->slots));
    if (!word.starts_with(kSlots) || has_slots ||
        !ReadSlots(word.substr(kSlots.size()), &host->slots)) {
      return Status(Code::kUsage, Cat("saw '", Printable(word), "' behind ", host->name,
                                      "; allowed there: slots=N, once, or :N at the name"));
    }
  }
  return host;
}

}  // namespace

Result<std::vector<Host>> ParseHosts(const std::string& text) {
  std::vector<Host> hosts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const Result<Host> host = ParseHost(text.substr(begin, end - begin));
    if (!host.ok()) return host.status().Within("-H");
    Add(*host, &hosts);
    begin = end + 1;
  }
  return hosts;
}

Result<std::vector<Host>> ParseHostfile(const std::string& text, const std::string& name) {
  std::vector<Host> hosts;
  std::istringstream lines(text);
  size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    if (++number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    line = line.substr(0, line.find('#'));
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Result<Host> host = ParseLine(line);
    if (!host.ok()) return host.status().Within(Cat(name, ":", number));
    Add(*host, &hosts);
  }
  if (hosts.empty()) {
    return Status(Code::kUsage,
                  Cat(name, ": saw no host; expected one a line, as in: node0 slots=2"));
  }
  return hosts;
}

std::string WithoutUser(const std::string& name) { return name.substr(name.rfind('@') + 1); }

}  // namespace tern::tools
