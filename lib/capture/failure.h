// Exceptions of Python as diagnostics of ours: what a user reads when a capture fails.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// Takes the exception that is set. One of ours (CaptureError) keeps its code; any other is E0301, with the user's
// frames as notes. The place is the innermost line of the user's own.
Diagnostic diagnostic_of_exception(Session& session);

}  // namespace atenon::capture
