#include "common/base/trace.h"

#include <array>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/atomic_file.h"
#include "common/base/mutex.h"
#include "common/base/text.h"

namespace tern {
namespace trace_internal {

// The events of one thread, which alone adds them.
class Track {
 public:
  struct Event {
    const char* name;
    Time begin, end;
    TraceArgs args;
    Shape shape;
  };

  Track(std::string name, size_t max_events) : name_(std::move(name)) {
    events_.reserve(max_events);
  }
  void Add(const Event& event) {
    if (events_.size() == events_.capacity()) {
      ++num_dropped_;
    } else {
      events_.push_back(event);
    }
  }
  const std::string& name() const { return name_; }
  const std::vector<Event>& events() const { return events_; }
  uint64_t num_dropped() const { return num_dropped_; }

 private:
  const std::string name_;
  std::vector<Event> events_;  // never grows beyond its first capacity
  uint64_t num_dropped_ = 0;
};

void Record(Track* track, Shape shape, const char* name, Time begin, const TraceArgs& args) {
  track->Add({name, begin, Now(), args, shape});
}

}  // namespace trace_internal

namespace {

using trace_internal::Shape;
using trace_internal::Track;

struct Recorder {
  Mutex mutex;
  TraceOptions options TERN_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<Track>> tracks TERN_GUARDED_BY(mutex);
};

Recorder& TheRecorder() {
  static Recorder recorder;
  return recorder;
}

// In microseconds, the unit of the format.
std::string Microseconds(Time t) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%lld.%03lld", static_cast<long long>(t.count() / 1000),
                static_cast<long long>(t.count() % 1000));
  return text.data();
}

std::string ArgsText(const TraceArgs& args) {
  std::vector<std::string> members;
  if (args.step != 0) members.push_back(Cat("\"step\":", args.step));
  if (args.round != 0) members.push_back(Cat("\"round\":", args.round));
  if (args.bucket >= 0) members.push_back(Cat("\"bucket\":", args.bucket));
  if (args.chunk >= 0) members.push_back(Cat("\"chunk\":", args.chunk));
  if (args.rank >= 0) members.push_back(Cat("\"rank\":", args.rank));
  return Cat("\"args\":{", Join(members, ","), "}");
}

// Appends the event; a flight is two events with the same `flight_id`. `place`: process and thread.
void AppendEvent(const Track::Event& event, const std::string& place, const std::string& flight_id,
                 std::vector<std::string>* out) {
  const std::string common = Cat("{\"name\":\"", event.name, "\",", place, ",");
  const std::string args = ArgsText(event.args);
  if (event.shape == Shape::kSpan) {
    out->push_back(Cat(common, "\"ph\":\"X\",\"ts\":", Microseconds(event.begin),
                       ",\"dur\":", Microseconds(event.end - event.begin), ",", args, "}"));
    return;
  }
  const std::string flight = Cat(common, "\"cat\":\"wire\",\"id\":\"", flight_id, "\",");
  out->push_back(Cat(flight, "\"ph\":\"b\",\"ts\":", Microseconds(event.begin), ",", args, "}"));
  out->push_back(Cat(flight, "\"ph\":\"e\",\"ts\":", Microseconds(event.end), ",\"args\":{}}"));
}

void AppendTrack(const Track& track, uint32_t process_id, size_t thread_id,
                 std::vector<std::string>* out) {
  const std::string place = Cat("\"pid\":", process_id, ",\"tid\":", thread_id);
  out->push_back(Cat("{\"name\":\"thread_name\",\"ph\":\"M\",", place, ",\"args\":{\"name\":\"",
                     track.name(), "\"}}"));
  size_t num_events = 0;
  for (const Track::Event& event : track.events())
    AppendEvent(event, place, Cat(process_id, ".", thread_id, ".", num_events++), out);
}

}  // namespace

void ArmTrace(TraceOptions options) {
  Recorder& recorder = TheRecorder();
  const MutexLock lock(recorder.mutex);
  trace_internal::is_on = false;
  recorder.tracks.clear();
  recorder.options = std::move(options);
}

uint64_t TraceSteps() {
  Recorder& recorder = TheRecorder();
  const MutexLock lock(recorder.mutex);
  return recorder.options.steps;
}

void SetTracing(bool is_on) { trace_internal::is_on = is_on && TraceSteps() != 0; }

TraceThread::TraceThread(const std::string& name) {
  Recorder& recorder = TheRecorder();
  const MutexLock lock(recorder.mutex);
  if (recorder.options.steps == 0) return;
  recorder.tracks.push_back(std::make_unique<Track>(name, recorder.options.max_events));
  trace_internal::track = recorder.tracks.back().get();
}

TraceThread::~TraceThread() { trace_internal::track = nullptr; }

Status WriteTrace() {
  SetTracing(false);
  Recorder& recorder = TheRecorder();
  const MutexLock lock(recorder.mutex);
  const TraceOptions options = recorder.options;
  if (options.steps == 0) return Ok();
  std::vector<std::string> events = {
      Cat("{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":", options.id, ",\"args\":{\"name\":\"",
          options.process, "\"}}")};
  uint64_t num_dropped = 0;
  for (size_t i = 0; i < recorder.tracks.size(); ++i) {
    AppendTrack(*recorder.tracks[i], options.id, i + 1, &events);
    num_dropped += recorder.tracks[i]->num_dropped();
  }
  return WriteFileAtomically(options.path,
                             Cat("{\"droppedEvents\":", num_dropped, ",\"traceEvents\":[\n",
                                 Join(events, ",\n"), "\n]}\n"));
}

}  // namespace tern
