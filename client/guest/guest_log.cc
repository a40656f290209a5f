#include "client/guest/guest_log.h"

#include <algorithm>
#include <vector>

#include "common/base/log_sink.h"
#include "common/base/mutex.h"

namespace tern::client {
namespace {

struct Receivers {
  Mutex mutex;
  std::vector<GuestEvents*> list TERN_GUARDED_BY(mutex);
};

Receivers& TheReceivers() {
  static auto* const receivers = new Receivers;  // Never freed: threads may log until the end.
  return *receivers;
}

void PassOn(const LogRecord& record) {
  Receivers& receivers = TheReceivers();
  const MutexLock lock(receivers.mutex);
  for (GuestEvents* receiver : receivers.list) {
    receiver->Push({.type = GuestEvent::Type::kLog,
                    .level = record.level,
                    .text = std::string(record.message)});
  }
}

}  // namespace

void AddLogReceiver(GuestEvents* receiver) {
  Receivers& receivers = TheReceivers();
  const MutexLock lock(receivers.mutex);
  receivers.list.push_back(receiver);
  SetLogSink(&PassOn);
}

void RemoveLogReceiver(GuestEvents* receiver) {
  Receivers& receivers = TheReceivers();
  const MutexLock lock(receivers.mutex);
  std::erase(receivers.list, receiver);
}

}  // namespace tern::client
