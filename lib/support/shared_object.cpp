// dlopen of a memory file is all that linking there is.
#include "support/shared_object.h"

#include <dlfcn.h>
#include <link.h>
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

void unmap_code_of(const void* function) {
  const auto visit = [](dl_phdr_info* object, size_t, void* address) {
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = object->dlpi_phdr[i];
      const uintptr_t begin = object->dlpi_addr + segment.p_vaddr, end = begin + segment.p_filesz;
      const auto at = reinterpret_cast<uintptr_t>(address);
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) || at < begin || at >= end) continue;
      const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), first = begin / page * page;
      madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);  // NOLINT(performance-no-int-to-ptr)
      return 1;
    }
    return 0;
  };
  dl_iterate_phdr(visit, const_cast<void*>(function));
}

}  // namespace atenon
