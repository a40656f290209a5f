#include "worker/tensorboard/writer.h"

#include <chrono>
#include <optional>
#include <utility>

#include "common/base/clock.h"
#include "common/base/logging.h"

namespace tern::tensorboard {

namespace {

constexpr Time kFlushInterval = std::chrono::seconds(1);
constexpr size_t kMaxQueuedEvents = 65536;

}  // namespace

Writer::Writer(EventFile file, size_t max_pending)
    : file_(std::move(file)), events_(kMaxQueuedEvents), event_makers_(max_pending) {
  thread_ = Thread("tensorboard", [this] { Run(); });
}

Writer::~Writer() {
  event_makers_.Close();
  thread_.Join();
}

void Writer::Add(pb::Event event) { events_.TryPush(event); }

void Writer::AddLater(std::function<void(pb::Event*)> make_event) {
  event_makers_.Push(std::move(make_event));
}

// Waits only for event_makers_, and looks into events_ after each wait, which takes at most a
// second, so that Add never has to wake this thread.
void Writer::Run() {
  while (!event_makers_.drained()) {
    const auto make_event = event_makers_.Pop(Now() + kFlushInterval);
    while (const std::optional<pb::Event> event = events_.TryPop()) file_.Add(*event);
    if (make_event.has_value() && file_.is_open()) {
      pb::Event event;
      (*make_event)(&event);
      file_.Add(event);
    }
    Flush();
  }
  while (const std::optional<pb::Event> event = events_.TryPop()) file_.Add(*event);
  Flush();
}

void Writer::Flush() {
  const Status flush_status = file_.Flush();
  LOG_IF(ERROR, !flush_status.ok()) << flush_status.message() << "; training goes on without it";
}

}  // namespace tern::tensorboard
