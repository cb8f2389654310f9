// dlopen of a memory file is all that linking there is.
#include "support/shared_object.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace atenon {

Result<std::shared_ptr<const SharedObject>> SharedObject::open(const std::string& name, const void* bytes,
                                                               size_t size) {
  const auto refuse = [](const std::string& why) { return error(Status::unsupported, 0, why); };
  std::shared_ptr<SharedObject> object(new SharedObject);
  object->file_ = memfd_create(name.c_str(), MFD_CLOEXEC);
  if (object->file_ < 0) return refuse("no memory file for it");
  for (size_t written = 0; written < size;) {
    const ssize_t step = write(object->file_, static_cast<const char*>(bytes) + written, size - written);
    if (step <= 0) return refuse("it could not be written");
    written += static_cast<size_t>(step);
  }
  object->handle_ = dlopen(("/proc/self/fd/" + std::to_string(object->file_)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object->handle_) return std::shared_ptr<const SharedObject>(std::move(object));
  const char* reason = dlerror();
  return refuse(reason ? reason : "the system does not say why");
}

SharedObject::~SharedObject() {
  if (handle_) dlclose(handle_);
  if (file_ >= 0) close(file_);
}

void* SharedObject::find(const std::string& symbol) const { return dlsym(handle_, symbol.c_str()); }

}  // namespace atenon
