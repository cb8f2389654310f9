// The list of targets. Levels of the x86-64 psABI: what a level names, every CPU of that level has.
#include "lower/target.h"

#include <vector>

namespace atenon::lower {

namespace {

const std::vector<Target>& targets() {  // best first
  static const std::vector<Target> list = {
      {"x86_64-avx512", "x86_64-unknown-linux-gnu", "x86-64-v4", 512},
      {"x86_64-avx2", "x86_64-unknown-linux-gnu", "x86-64-v3", 256},
  };
  return list;
}

bool host_has(const Target& target) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (target.name == "x86_64-avx512") return __builtin_cpu_supports("x86-64-v4");
  if (target.name == "x86_64-avx2") return __builtin_cpu_supports("x86-64-v3");
#endif
  return false;
}

}  // namespace

Result<Target> resolve_target(const std::string& name) {
  std::vector<std::string> names;
  for (const Target& target : targets()) {
    if (name == "host" ? host_has(target) : name == target.name) return target;
    names.push_back(target.name);
  }
  if (name == "host")
    return error(Status::unsupported, 502, "this CPU has neither AVX-512 nor AVX2")
        .note("name a target with --target x86_64-avx2");
  Diagnostic unknown = error(Status::usage, 502, "there is no target '" + name + "'");
  std::string list;
  for (const std::string& known : names) list += (list.empty() ? "" : ", ") + known;
  return std::move(unknown).note("targets are host, " + list);
}

}  // namespace atenon::lower
