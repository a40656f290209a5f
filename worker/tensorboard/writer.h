// The thread that writes an event file: an event is in the file within a second of its addition. If
// the file cannot be written, this is logged once.
#pragma once

#include <cstddef>
#include <functional>

#include "common/base/channel.h"
#include "common/base/threads.h"
#include "worker/tensorboard/event_file.h"

namespace tern::tensorboard {

class Writer {
 public:
  // `max_pending`: how many calls of AddLater may wait for the thread.
  Writer(EventFile file, size_t max_pending);
  ~Writer();  // writes all queued events, and joins

  // Any thread; never blocks. If a file system hangs so long that 65536 events wait, further ones
  // are dropped.
  void Add(pb::Event event);
  // `make` fills in an event, on the writer's thread. Blocks while `max_pending` calls are waiting.
  void AddLater(std::function<void(pb::Event* event)> make);

 private:
  void Run();
  void Write();

  EventFile file_;
  Channel<pb::Event> events_;
  Channel<std::function<void(pb::Event*)>> later_;
  Thread thread_;  // last, because it uses the members above
};

}  // namespace tern::tensorboard
