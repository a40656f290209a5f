#include "setup/screen.h"

#include <utility>

#include "common/base/text.h"

namespace tern::setup {

void Screen::ShowProgress(const std::string& progress_json, Time now) {
  line_.Drain(Time(0));
  const std::optional<ProgressUpdate> update = ParseProgressUpdate(progress_json);
  if (!update.has_value()) return;
  Announce(*update);
  if (!line_.is_in_place() && (update->rounds == 0 || update->samples == 0 ||
                               (has_shown_progress_ && now - shown_at_ < kBetweenLines)))
    return;
  // Speeds are measured from a line of progress that is at least kSpeedInterval old.
  if (!next_begin_json_.empty() && now - next_begin_at_ >= kSpeedInterval) {
    interval_begin_json_ = next_begin_json_;
    next_begin_json_.clear();
  }
  if (next_begin_json_.empty()) {
    next_begin_json_ = progress_json;
    next_begin_at_ = now;
  }
  if (line_.is_in_place())
    return line_.Redraw(ProgressLine(progress_json, interval_begin_json_, line_.columns() - 1));
  const std::string text = ProgressLine(progress_json, interval_begin_json_);
  if (text == shown_text_ && now - shown_at_ < kBetweenSameLines) return;
  has_shown_progress_ = true;
  shown_at_ = now;
  shown_text_ = text;
  line_.Print(text);
}

void Screen::Announce(const ProgressUpdate& update) {
  AnnounceResume(update);
  AnnounceFailedCheckpoints(update);
}

void Screen::AnnounceResume(const ProgressUpdate& update) {
  if (!update.beginning.empty() && update.beginning != beginning_id_) {
    beginning_id_ = update.beginning;
    may_announce_resume_ = true;
  }
  const bool went_back = update.rounds > 0 && update.rounds < newest_rounds_;
  if (may_announce_resume_ && (update.from_step > 0 || went_back)) {
    PrintLine(update.from_step < newest_rounds_
                  ? Cat("goes back from step ", newest_rounds_, " to step ", update.from_step)
                  : ResumeText(update));
    may_announce_resume_ = false;
  } else if (update.rounds > newest_rounds_) {
    may_announce_resume_ = false;  // The job began at step 0, so there is nothing to announce.
  }
  if (update.rounds > 0) newest_rounds_ = update.rounds;
}

std::string Screen::ResumeText(const ProgressUpdate& update) {
  std::string text = Cat("goes on from step ", update.from_step);
  if (!changes_.empty()) text += " with other settings: " + std::exchange(changes_, "");
  if (update.steps > 0 && update.from_step >= update.steps) {
    text += Cat("\nnothing to train: the job has ", update.steps,
                update.steps == 1 ? " step, and it is done" : " steps, and they are done",
                "; its weights are evaluated and written again");
  }
  return text;
}

void Screen::AnnounceFailedCheckpoints(const ProgressUpdate& update) {
  if (update.failed_checkpoints == 0 || has_announced_failure_) return;
  has_announced_failure_ = true;
  PrintLine(
      "a checkpoint could not be written; the log of the server names the daemon, whose log says "
      "why");
}

}  // namespace tern::setup
