// Opens files in a folder to which a job writes its output, and checks that folder.
//
// Whoever may write to the folder could place a symbolic link there under the name of a file or
// folder of the job. Without these checks, the job would then change files elsewhere.
#pragma once

#include <string>

#include "common/base/status.h"

namespace tern {

// Both functions open the file for appending, with mode 0640 if it is new, and return its
// descriptor, which the caller closes. kCannotWrite, with the system's message, if the file cannot
// be opened.
//
// Opens the file or creates it. kCannotWrite if `path` is a symbolic link or a pipe. A terminal is
// opened, too.
Result<int> OpenForAppending(const std::string& path);
// Creates the file. Removes a file or symbolic link of that name first, so that a file elsewhere
// keeps its bytes. A terminal is opened as it is. kCannotWrite if `path` is a folder or a pipe.
Result<int> CreateAnew(const std::string& path);

// kCannotWrite if `folder`, which a program makes in an output_dir, is a symbolic link.
Status CheckIsNoLink(const std::string& folder);
// kCannotWrite if one of the folders that a job expects in `output_dir` ("logs", "checkpoints" and
// what is in it, "events" and what is in it) is a symbolic link. `output_dir` itself may be one.
Status CheckOutputFolder(const std::string& output_dir);
// Returns a sentence if users other than that of this process, and root, may write to the folder;
// else "".
std::string WarningOfOpenFolder(const std::string& folder);

}  // namespace tern
