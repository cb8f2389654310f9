// Kernels that `lower` generated: machine code inside the program, opened from memory and cut into tiles of rows.
//
// The shared objects need nothing from outside. How many rows make a tile is written in the call: it depends on the
// shape and the target, never on the number of threads.
#include <algorithm>

#include "kernels/body.h"
#include "kernels/list.h"
#include "support/parallel.h"

namespace atenon::kernels {

namespace {

// "" if this CPU runs code for `target` ("x86_64-avx512"), else why not.
std::string refusal_of(const std::string& target) {
  const size_t dash = target.find('-');
  const std::string features = dash == std::string::npos ? "" : target.substr(dash + 1);
#if defined(__x86_64__)
  if (target.substr(0, dash) != "x86_64") return "this machine is of another architecture";
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (features == "avx512") return avx512 ? "" : "this machine lacks AVX-512";
  if (features == "avx2") return avx2 ? "" : "this machine lacks AVX2";
  return features.empty() ? "" : "this atenon does not know " + features;
#else
  return "this machine is of another architecture";
#endif
}

class GeneratedCall : public PreparedCall {
 public:
  atenon_kernel_v1* function = nullptr;
  std::vector<int64_t> sizes;
  int64_t rows = 0, grain = 1;
  size_t scratch = 0;  // bytes of one worker

  int64_t tiles() const { return divide_up(rows, grain); }
  int64_t workers() const { return scratch > 0 ? std::min<int64_t>(tiles(), threads()) : 0; }
  size_t scratch_bytes() const override { return scratch * static_cast<size_t>(workers()); }

  Result<void> run(std::span<void* const> buffers, void* memory) override {
    auto tile = [&](int64_t i, void* own) {
      function(buffers.data(), sizes.data(), i * grain, std::min(rows, (i + 1) * grain), own);
    };
    if (tiles() == 1) {
      tile(0, memory);
    } else if (scratch == 0) {
      parallel_for(tiles(), [&](int64_t i) { tile(i, nullptr); });
    } else {
      parallel_for(tiles(), workers(), memory, scratch, tile);
    }
    return {};
  }
};

const ir::Argument* annotation(const CallSite& site, const char* name) {
  for (const ir::Named& named : *site.annotations)
    if (named.name == name) return &named.argument;
  return nullptr;
}

std::optional<int64_t> size_annotation(const CallSite& site, const char* name, int64_t fallback) {
  const ir::Argument* found = annotation(site, name);
  if (!found) return fallback;
  return found->is<ir::SymInt>() ? shape::evaluate(found->get<ir::SymInt>(), site.symbols) : std::nullopt;
}

std::string text_annotation(const CallSite& site, const char* name) {
  const ir::Argument* found = annotation(site, name);
  return found && found->is<std::string>() ? found->get<std::string>() : "";
}

// Of an operand: all, or, where only places of it are looked up (embedding, index, gather), as many as are returned.
double numbers_read(const CallSite& site, size_t operand) {
  const ir::Value* const value = site.body->inputs()[operand].get();
  const double all = count(site.operands[operand].sizes);
  double looked_up = 0;
  for (const ir::Node& node : site.body->forward()) {
    const std::vector<ir::Value*> read = node.operands();
    if (std::find(read.begin(), read.end(), value) == read.end()) continue;
    const bool has_places = std::any_of(read.begin(), read.end(), [value](const ir::Value* other) {
      return other != value && other->is_tensor() && other->meta().dtype == ScalarType::i64;
    });
    if (!has_places || node.results().size() != 1 || !node.result()->is_tensor()) return all;
    const std::optional<int64_t> returned = shape::evaluate(node.result()->meta().numel(), site.symbols);
    looked_up += returned ? static_cast<double>(*returned) : all;
  }
  return std::min(all, looked_up);
}

class Generated : public Kernel {
 public:
  const char* name() const override { return "llvm"; }
  std::string refusal(const ir::Graph&) const override { return "no code was generated for it"; }

  Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const override {
    auto damaged = [](const std::string& why) { return error(Status::bad_input, 614, "a generated kernel " + why); };
    auto call = std::make_unique<GeneratedCall>();
    const std::string code = text_annotation(site, "code"), symbol = text_annotation(site, "symbol");
    call->function = site.code ? site.code->find(code, symbol) : nullptr;
    if (!call->function) return damaged("is not in the program's code: " + code + ", " + symbol);
    std::optional<int64_t> rows = size_annotation(site, "rows", 1), grain = size_annotation(site, "grain", 1),
                           scratch = size_annotation(site, "scratch", 0);
    if (!rows || !grain || !scratch || *rows < 0 || *grain < 1 || *scratch < 0)
      return damaged("has no rows, grain or scratch");
    call->rows = *rows;
    call->grain = *grain;
    call->scratch = in_lines(static_cast<size_t>(*scratch));
    if (const ir::Argument* sizes = annotation(site, "sizes"); sizes && sizes->is<ir::ArgumentList>())
      for (const ir::Argument& size : sizes->get<ir::ArgumentList>()) {
        std::optional<int64_t> value =
            size.is<ir::SymInt>() ? shape::evaluate(size.get<ir::SymInt>(), site.symbols) : std::nullopt;
        if (!value) return damaged("has a size that is not known");
        call->sizes.push_back(*value);
      }
    const auto add_bytes = [&call](const Operand& operand, double numbers) {
      call->bytes += numbers * static_cast<double>(size_of(operand.dtype));
    };
    // What is scattered into a base that lies there is all that is written, and the base is not read.
    const std::optional<int64_t> scattered = size_annotation(site, "scattered", 0);
    if (!scattered || site.results.empty()) return damaged("does not say what it scatters");
    const int base = annotation(site, "scattered") ? site.results[0].overwrites : -1;
    for (size_t i = 0; i < site.operands.size(); ++i)
      if (static_cast<int>(i) != base) add_bytes(site.operands[i], numbers_read(site, i));
    const double written = static_cast<double>(*scattered);
    for (const Operand& operand : site.results) add_bytes(operand, base < 0 ? count(operand.sizes) : written);
    if (base >= 0) {
      const double rows_a_tile = static_cast<double>(*grain) * count(site.results[0].sizes) / std::max(1., written);
      call->grain = static_cast<int64_t>(std::clamp(rows_a_tile, 1., std::max(1., static_cast<double>(*rows))));
    }
    return std::unique_ptr<PreparedCall>(std::move(call));
  }
};

}  // namespace

Result<std::shared_ptr<const Code>> Code::open(const std::vector<ir::CodeSegment>& segments) {
  std::shared_ptr<Code> code(new Code);
  for (const ir::CodeSegment& segment : segments) {
    if (segment.is_library) continue;  // for operators, not for calls
    auto refuse = [&](const std::string& why) {
      return error(Status::unsupported, 612, "code segment '" + segment.name + "' for " + segment.target + ": " + why);
    };
    if (std::string why = refusal_of(segment.target); !why.empty()) return refuse(why);
    const void* bytes = segment.bytes ? segment.bytes->data() : nullptr;
    if (!bytes) return refuse("its bytes are absent");
    auto object = SharedObject::open(segment.name, bytes, segment.bytes->size());
    if (!object) return refuse(object.failure().message);
    code->objects_[segment.name] = *object;
  }
  return std::shared_ptr<const Code>(std::move(code));
}

atenon_kernel_v1* Code::find(const std::string& segment, const std::string& symbol) const {
  auto object = objects_.find(segment);
  return object == objects_.end() ? nullptr : reinterpret_cast<atenon_kernel_v1*>(object->second->find(symbol));
}

const Kernel& generated() {
  static const Generated kernel;
  return kernel;
}

}  // namespace atenon::kernels
