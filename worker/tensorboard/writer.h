// The thread that writes an event file. Events are in the file about a second after they were
// added. If the file cannot be written, the error is logged once, and later events are dropped.
#pragma once

#include <cstddef>
#include <functional>

#include "common/base/channel.h"
#include "common/base/threads.h"
#include "worker/tensorboard/event_file.h"

namespace tern::tensorboard {

class Writer {
 public:
  // `max_pending`: how many functions passed to AddLater may wait to be called.
  Writer(EventFile file, size_t max_pending);
  ~Writer();  // Writes all queued events, and joins the thread.

  // Queues an event. Any thread may call Add, which never blocks. If 65536 events are waiting,
  // because the file system hangs, the event is dropped.
  void Add(pb::Event event);
  // Queues a function that fills in an event. The writer's thread calls the function if the file is
  // still open. Blocks while `max_pending` functions are waiting.
  void AddLater(std::function<void(pb::Event* event)> make_event);

 private:
  void Run();
  void Flush();

  EventFile file_;
  Channel<pb::Event> events_;
  Channel<std::function<void(pb::Event*)>> event_makers_;  // The functions passed to AddLater.
  Thread thread_;  // The last member, because the thread uses the members above.
};

}  // namespace tern::tensorboard
