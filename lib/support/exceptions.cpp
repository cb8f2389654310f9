#include "support/exceptions.h"

#include <new>
#include <stdexcept>

namespace atenon {

Diagnostic explain(const std::exception& problem) {
  // A vector of more than memory can have is a length_error.
  if (dynamic_cast<const std::bad_alloc*>(&problem) || dynamic_cast<const std::length_error*>(&problem))
    return error(Status::unsupported, 10, "there is not enough memory");
  return error(Status::bug, 0, std::string("internal error: ") + problem.what()).note("this is a bug of ours");
}

}  // namespace atenon
