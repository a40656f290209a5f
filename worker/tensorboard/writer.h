// The thread that writes an event file: what others tell it is in the file a second later.
// Where it cannot be written, the log says so once.
#pragma once

#include <cstddef>
#include <functional>

#include "common/base/channel.h"
#include "common/base/threads.h"
#include "worker/tensorboard/event_file.h"

namespace tern::tensorboard {

class Writer {
 public:
  // So many calls of AddLater may wait for the thread.
  Writer(EventFile file, size_t room);
  ~Writer();  // writes all that was told, and joins

  // From any thread; never waits. Where a file system stands still so long that 65536 events have
  // come, further ones are lost.
  void Add(pb::Event event);
  // `make` fills in an event, on the writer's thread. Waits while `room` others do.
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
