// The stack of another thread of this process, for the log when that thread hangs.
#pragma once

#include <pthread.h>

#include <string>

namespace tern {

// Returns the call stack of a running thread, one function a line, innermost first: with its name
// if the program exports it, else as FILE(+OFFSET), which addr2line takes. Interrupts the thread
// with SIGURG to read its stack. If the thread does not answer within a second (a debugger holds
// it, or it waits in the kernel for a disk), returns a sentence that says so. Any thread may call
// it; one caller at a time is served. REQUIRES that `thread` is not joined yet.
std::string StackOfThread(pthread_t thread);

}  // namespace tern
