// tern top: shows the status of a running job in the terminal, until q.
#include <curses.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/signals.h"
#include "common/base/text.h"
#include "tools/commands.h"
#include "tools/top/poller.h"
#include "tools/top/status_view.h"
#include "tools/top/target.h"

namespace tern::tools {

namespace {

constexpr int kMinColumns = 80, kMinRows = 24;
constexpr int kKeyWaitMs = 200;
constexpr Time kLateAfter = std::chrono::seconds(3);

enum Color : short { kRed = 1, kCyan };

// The terminal while this object lives. It ends before anything is printed or the process ends.
class Terminal {
 public:
  // Null if ncurses does not know the terminal's type, which the environment variable TERM names.
  static std::unique_ptr<Terminal> Open() {
    std::setlocale(LC_ALL, "");
    SCREEN* screen = newterm(nullptr, stdout, stdin);
    return screen == nullptr ? nullptr : std::unique_ptr<Terminal>(new Terminal(screen));
  }
  ~Terminal() {
    endwin();
    delscreen(screen_);
  }
  Terminal(const Terminal&) = delete;

 private:
  explicit Terminal(SCREEN* screen) : screen_(screen) {
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, TRUE);
    timeout(kKeyWaitMs);
    if (has_colors()) {
      start_color();
      use_default_colors();
      init_pair(kRed, COLOR_RED, -1);
      init_pair(kCyan, COLOR_CYAN, -1);
    }
  }

  SCREEN* const screen_;
};

chtype AttributesOf(LineKind kind) {
  switch (kind) {
    case LineKind::kTitle:
      return A_BOLD;
    case LineKind::kAlarm:
    case LineKind::kBadRow:
      return A_BOLD | COLOR_PAIR(kRed);
    case LineKind::kHeading:
      return A_UNDERLINE | COLOR_PAIR(kCyan);
    case LineKind::kText:
    case LineKind::kRow:
      break;
  }
  return A_NORMAL;
}

void PutLine(int row, const std::string& text, chtype attributes) {
  attrset(static_cast<int>(attributes));
  mvaddnstr(row, 0, text.c_str(), COLS);
  clrtoeol();
  attrset(A_NORMAL);
}

struct Keys {
  SortKey sort = SortKey::kRank;
  bool is_paused = false;
};

// Draws the newest answer; what stands in its way goes to the line above the keys.
void Draw(const StatusPoller::Answers& answers, const Keys& keys) {
  erase();
  const int body_rows = LINES - 2;
  std::string trouble;
  if (COLS < kMinColumns || LINES < kMinRows) {
    PutLine(0,
            Cat("tern top needs ", kMinColumns, " x ", kMinRows, " characters, the terminal has ",
                COLS, " x ", LINES),
            A_BOLD);
  } else if (answers.newest.empty()) {
    PutLine(0, answers.number == 0 ? "asking ..." : "no answer so far", A_BOLD);
  } else {
    const auto lines = ViewStatus(answers.newest, {.columns = static_cast<size_t>(COLS),
                                                   .rows = static_cast<size_t>(body_rows),
                                                   .sort = keys.sort});
    for (int row = 0; lines.ok() && row < static_cast<int>(lines->size()); ++row)
      PutLine(row, (*lines)[row].text, AttributesOf((*lines)[row].kind));
    if (!lines.ok()) trouble = lines.status().message();
    if (const Time age = Now() - answers.at; age > kLateAfter && !keys.is_paused)
      trouble = Cat("no answer for ", HumanTime(age), "; this is the last one. ");
  }
  if (!answers.error.ok() && !keys.is_paused) trouble += answers.error.message();
  PutLine(LINES - 2, trouble, A_BOLD | COLOR_PAIR(kRed));
  PutLine(LINES - 1,
          Cat("q quit  s sort: ", NameOf(keys.sort), "  p ", keys.is_paused ? "PAUSED" : "pause"),
          A_REVERSE);
  refresh();
}

Status ShowUntilQuit(const std::string& url) {
  const StopSignals signals;
  StatusPoller poller(url);
  const std::unique_ptr<Terminal> terminal = Terminal::Open();
  if (terminal == nullptr) {
    const char* type = std::getenv("TERM");
    return Status(Code::kUsage, Cat("the terminal's type is unknown: TERM is '",
                                    Printable(type == nullptr ? "" : type),
                                    "'; tern status prints the same once"));
  }
  Keys keys;
  StatusPoller::Answers shown = poller.answers();
  for (int key = 0; key != 'q' && signals.signal() == 0; key = getch()) {
    if (key == 's')
      keys.sort = keys.sort == kLastSortKey ? SortKey::kRank
                                            : static_cast<SortKey>(static_cast<int>(keys.sort) + 1);
    if (key == 'p') keys.is_paused = !keys.is_paused;
    if (!keys.is_paused) shown = poller.answers();
    Draw(shown, keys);
  }
  return signals.status();
}

}  // namespace

Status ShowTop(const Arguments& arguments) {
  const Result<Target> target = ReadTarget(arguments);
  if (!target.ok()) return target.status();
  if (isatty(STDOUT_FILENO) == 0 || isatty(STDIN_FILENO) == 0)
    return Status(Code::kUsage, "tern top needs a terminal; tern status prints the same once");
  return ShowUntilQuit(target->url);
}

}  // namespace tern::tools
