// The thread that writes an event file: events are in the file a second after they were added. If
// the file cannot be written, the log says so once.
#pragma once

#include <cstddef>
#include <functional>

#include "common/base/channel.h"
#include "common/base/threads.h"
#include "worker/tensorboard/event_file.h"

namespace tern::tensorboard {

class Writer {
 public:
  // `room`: how many calls of AddLater may wait for the thread.
  Writer(EventFile file, size_t room);
  ~Writer();  // writes all that was added, and joins

  // Any thread; never waits. If a file system hangs so long that 65536 events wait, further ones
  // are dropped.
  void Add(pb::Event event);
  // `make` fills in an event, on the writer's thread. Waits while `room` calls wait already.
  void AddLater(std::function<void(pb::Event* event)> make);

 private:
  void Run();
  void Write();

  EventFile file_;
  Channel<pb::Event> events_;
  Channel<std::function<void(pb::Event*)>> later_;
  Thread thread_;  // last: it uses all of the above
};

}  // namespace tern::tensorboard
