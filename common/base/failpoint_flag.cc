#include "common/base/failpoint_flag.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <vector>

#include "common/base/text.h"

namespace tern {
namespace {

constexpr double kMaxSeconds = 1e6;

struct ActionRow {
  const char* name;
  FailAction action;
  enum class Amount : uint32_t { kNone, kOptional, kRequired, kSigned } amount;
  const char* meaning;
};
using Amount = ActionRow::Amount;

constexpr std::array kActions = {
    ActionRow{"full", FailAction::kFull, Amount::kNone,
              "fails as if the disk were full, after half of the bytes"},
    ActionRow{"torn", FailAction::kTorn, Amount::kNone,
              "writes half of the bytes, and reports success"},
    ActionRow{"drop", FailAction::kDrop, Amount::kNone, "loses the message"},
    ActionRow{"flip", FailAction::kFlip, Amount::kNone, "flips one bit of the message"},
    ActionRow{"cut", FailAction::kCut, Amount::kNone, "closes all TCP connections of the process"},
    ActionRow{"step", FailAction::kStep, Amount::kSigned,
              "moves the clock of the loops by SECONDS, for example +3600 or -5"},
    ActionRow{"delay", FailAction::kDelay, Amount::kRequired, "sleeps for SECONDS"},
    ActionRow{"hang", FailAction::kHang, Amount::kOptional, "sleeps for SECONDS, or for ever"},
    ActionRow{"die", FailAction::kDie, Amount::kNone, "kills the process with SIGKILL"},
    ActionRow{"abort", FailAction::kAbort, Amount::kNone, "ends the process with SIGABRT"},
};

struct PlaceRow {
  const char* name;
  FailPlace place;
  const char* role;     // the only daemon that has it; empty: both
  const char* actions;  // names, each between spaces
  const char* meaning;
};

constexpr char kActionsOfThreads[] = " delay hang die abort ";
constexpr std::array kPlaces = {
    PlaceRow{"disk.write", FailPlace::kDiskWrite, "", " full torn delay hang die abort ",
             "a file is written: checkpoint, weights, summary"},
    PlaceRow{"disk.rename", FailPlace::kDiskRename, "", " full delay hang die abort ",
             "a written file gets its name"},
    PlaceRow{"net.send", FailPlace::kNetSend, "", " drop cut delay hang die abort ",
             "a message is given to a socket"},
    PlaceRow{"net.receive", FailPlace::kNetReceive, "", " drop flip cut delay hang die abort ",
             "a message has arrived, and is not checked yet"},
    PlaceRow{"thread.plan", FailPlace::kThreadPlan, "worker", kActionsOfThreads,
             "the compute thread begins to plan the network"},
    PlaceRow{"thread.compute", FailPlace::kThreadCompute, "worker", kActionsOfThreads,
             "the compute thread begins a step"},
    PlaceRow{"thread.wait", FailPlace::kThreadWait, "worker", kActionsOfThreads,
             "the compute thread has waited for an answer, and gets it"},
    PlaceRow{"thread.coder", FailPlace::kThreadCoder, "worker", kActionsOfThreads,
             "the coder thread gets work"},
    PlaceRow{"thread.net", FailPlace::kThreadNet, "worker", kActionsOfThreads,
             "a turn of the net thread"},
    PlaceRow{"thread.lane", FailPlace::kThreadLane, "server", kActionsOfThreads,
             "a turn of a lane's thread"},
    PlaceRow{"thread.control", FailPlace::kThreadControl, "server", kActionsOfThreads,
             "a turn of the control thread"},
    PlaceRow{"clock", FailPlace::kClock, "", " step ",
             "the loops that watch for silent peers read the time"},
};

bool HasPlace(const PlaceRow& row, std::string_view role) {
  return *row.role == '\0' || row.role == role;
}
bool AllowsAction(const PlaceRow& row, std::string_view action) {
  return std::string_view(row.actions).find(Cat(" ", action, " ")) != std::string_view::npos;
}

std::string NamesOfActions(const PlaceRow& row) {
  const std::string_view actions = row.actions;
  return std::string(actions.substr(1, actions.size() - 2));
}

Status UsageError(std::string_view text, const std::string& sentence) {
  return Status(Code::kUsage, Cat("--fail ", Printable(text), ": ", sentence,
                                  "; --fail list describes failpoints"));
}

// A finite number that is the whole of `text`.
std::optional<double> ReadNumber(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const bool is_whole = !text.empty() && end == text.c_str() + text.size();
  return is_whole && std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::optional<uint64_t> ReadCount(const std::string& text) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != text.npos)
    return std::nullopt;
  return std::stoull(text);
}

// Removes what is before `separator` from the front of *text, with the separator, and returns it;
// all of it if there is no separator.
std::string TakeUntil(char separator, std::string* text) {
  const size_t separator_at = text->find(separator);
  std::string taken = text->substr(0, separator_at);
  *text = separator_at == text->npos ? "" : text->substr(separator_at + 1);
  return taken;
}

// Reads WHEN into *out. Returns false if it is none.
bool ReadWhen(std::string text, Failpoint* out) {
  using When = Failpoint::When;
  if (text.find(':') == text.npos) {
    const bool is_open = text.ends_with('+');
    if (is_open) text.pop_back();
    out->when = is_open ? When::kFrom : When::kOnce;
  } else if (const std::string form = TakeUntil(':', &text); form == "chance") {
    const auto chance = ReadNumber(TakeUntil(':', &text));
    const auto seed = text.empty() ? 1 : ReadCount(text);
    if (!chance.has_value() || *chance <= 0 || *chance > 1 || !seed.has_value()) return false;
    out->when = When::kChance;
    out->chance = *chance;
    out->seed = *seed;
    return true;
  } else if (form == "every" || form == "step") {
    out->when = form == "every" ? When::kEvery : When::kStep;
  } else {
    return false;
  }
  const auto number = ReadCount(text);
  out->number = number.value_or(0);
  return out->number != 0;
}

// Reads SECONDS into *out. Returns false if this action does not take that.
bool ReadAmount(const ActionRow& row, const std::string& text, bool is_given, Failpoint* out) {
  if (!is_given) return row.amount == Amount::kNone || row.amount == Amount::kOptional;
  const auto seconds = ReadNumber(text);
  if (row.amount == Amount::kNone || !seconds.has_value() || std::abs(*seconds) > kMaxSeconds)
    return false;
  out->amount_ns = static_cast<int64_t>(*seconds * 1e9);
  return row.amount == Amount::kSigned ? out->amount_ns != 0 : out->amount_ns > 0;
}

std::string NamesOfPlaces(std::string_view role) {
  std::vector<std::string> names;
  for (const PlaceRow& row : kPlaces) {
    if (HasPlace(row, role)) names.emplace_back(row.name);
  }
  return Join(names);
}

const PlaceRow* FindPlace(const std::string& name, std::string_view role) {
  for (const PlaceRow& row : kPlaces) {
    if (row.name == name && HasPlace(row, role)) return &row;
  }
  return nullptr;
}

const ActionRow* FindAction(const PlaceRow& place, const std::string& name) {
  for (const ActionRow& row : kActions) {
    if (row.name == name && AllowsAction(place, name)) return &row;
  }
  return nullptr;
}

}  // namespace

Result<Failpoint> ParseFailpoint(std::string_view text, std::string_view role) {
  Failpoint failpoint{};
  failpoint.text = Printable(text);
  std::string rest(text);
  const std::string place_name = TakeUntil('=', &rest);
  const PlaceRow* const place = FindPlace(place_name, role);
  if (place == nullptr)
    return UsageError(text, Cat("tern_", role, " has no place '", Printable(place_name),
                                "'; it has ", NamesOfPlaces(role)));
  failpoint.place = place->place;
  const bool has_when = rest.find('@') != rest.npos;
  std::string action_text = TakeUntil('@', &rest);
  const bool has_amount = action_text.find(':') != action_text.npos;
  const std::string action_name = TakeUntil(':', &action_text);
  const ActionRow* const action = FindAction(*place, action_name);
  if (action == nullptr)
    return UsageError(text, Cat(place_name, " has no action '", Printable(action_name),
                                "'; it has ", NamesOfActions(*place)));
  failpoint.action = action->action;
  if (!ReadAmount(*action, action_text, has_amount, &failpoint)) {
    return UsageError(text, action->amount == Amount::kNone
                                ? Cat(action_name, " takes no seconds")
                                : Cat(action_name, " takes ",
                                      action->amount == Amount::kSigned ? "+S or -S" : ":S",
                                      ", a number of seconds up to ", kMaxSeconds));
  }
  if (has_when && !ReadWhen(rest, &failpoint))
    return UsageError(text, Cat("saw '@", Printable(rest),
                                "'; allowed: @N, @N+, @every:N, @chance:P[:SEED], @step:N"));
  if (failpoint.when == Failpoint::When::kStep && role != "worker")
    return UsageError(text, "only a worker knows its step");
  return failpoint;
}

std::string DescribeFailpoints(std::string_view role) {
  std::string description =
      Cat("failpoints of tern_", role, ": --fail PLACE=ACTION[:SECONDS][@WHEN]\n\nplaces:\n");
  const auto add_row = [&](std::string name, const std::string& meaning) {
    name.resize(std::max<size_t>(name.size(), 16), ' ');
    description += Cat("  ", name, " ", meaning, "\n");
  };
  for (const PlaceRow& row : kPlaces) {
    if (HasPlace(row, role)) add_row(row.name, Cat(row.meaning, ": ", NamesOfActions(row)));
  }
  description += "\nactions:\n";
  for (const ActionRow& row : kActions) add_row(row.name, row.meaning);
  description += "\nwhen, of the times that the place is reached (without: each time):\n";
  add_row("@N", "the N-th time");
  add_row("@N+", "the N-th and each later time");
  add_row("@every:N", "each N-th time");
  add_row("@chance:P:SEED", "each time with probability P, as a function of SEED (default 1)");
  if (role == "worker") add_row("@step:N", "once, when step N of the job has begun");
  return description;
}

}  // namespace tern
