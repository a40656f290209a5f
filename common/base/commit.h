// The commit of which the program was built, for its metrics and its page.
#pragma once

namespace tern {

// As `git describe --always --dirty` names it; "unknown" if the source was not in a repository.
// Programs link it (tern_commit); libraries do not, so that a commit leaves tests as they are.
const char* Commit();

}  // namespace tern
