#include "support/exceptions.h"

#include <new>
#include <stdexcept>
#include <system_error>

namespace atenon {

Diagnostic explain(const std::exception& problem) {
  // A vector of more than memory can have is a length_error.
  if (dynamic_cast<const std::bad_alloc*>(&problem) || dynamic_cast<const std::length_error*>(&problem))
    return error(Status::unsupported, 10, "there is not enough memory");
  const auto* system = dynamic_cast<const std::system_error*>(&problem);
  if (system && system->code() == std::errc::resource_unavailable_try_again)
    return error(Status::unsupported, 11, "this process may start no more threads");
  return error(Status::bug, 0, std::string("internal error: ") + problem.what()).note("this is a bug of ours");
}

}  // namespace atenon
