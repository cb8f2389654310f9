// Fast kernels: an ordered list, tried from the top, reference last.
//
// A kernel takes a call: the subgraph that says what is to be computed, in operators (one node for a program that was
// not lowered). Its two questions are answered at different times: objection() by `lower` (and by `run` for programs
// that were not lowered), from symbolic types; prepare() by `run`, once for each binding of the symbols, from concrete
// sizes and with the weights at hand. A kernel reads the subgraph itself: post-ops, strides and the like are never
// written a second time.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/program.h"
#include "kernels/abi.h"
#include "opset/opset.h"
#include "reference/reference.h"
#include "support/shared_object.h"
#include "tensor/tensor.h"

namespace atenon::kernels {

constexpr int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One operand or result of a call, at concrete sizes.
struct Operand {
  ScalarType dtype = ScalarType::f32;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;        // elements; lower may have chosen channels-last
  const ir::Weight* weight = nullptr;  // set where the operand is a weight, whose bytes never change
  int overwrites = -1;                 // of a result: the operand whose buffer it takes over (lower gave both one slot)
};

// The machine code of a program, opened once for all its calls.
class Code {
 public:
  // Loads shared objects from memory; E0612 where one does not open, or needs a CPU other than this.
  static Result<std::shared_ptr<const Code>> open(const std::vector<ir::CodeSegment>& segments);
  atenon_kernel_v1* find(const std::string& segment, const std::string& symbol) const;  // null if absent

 private:
  Code() = default;
  std::map<std::string, std::shared_ptr<const SharedObject>> objects_;
};

// A call to be prepared. `body` is the meaning: its inputs are the operands, its outputs the results, in order.
struct CallSite {
  const ir::Graph* body = nullptr;
  const std::vector<ir::Named>* annotations = nullptr;
  std::vector<Operand> operands;
  std::vector<Operand> results;
  shape::Bindings symbols = {};
  int threads = 1;
  bool in_tile = false;        // it is run inside of another call's tile, by one thread
  const Code* code = nullptr;  // "llvm" needs it
  // "reference" needs these two: a program that is lowered throughout runs without them.
  const opset::Opset* opset = nullptr;
  const std::map<std::string, ir::Graph>* subgraphs = nullptr;
  const reference::DeclaredKernels* declared = nullptr;  // of "reference", for operators that are only declared
  Generator* generator = nullptr;                        // of "reference", for operators that draw
};

// A call at concrete sizes, ready to run any number of times, from one thread at a time for one `Buffers`.
class PreparedCall {
 public:
  virtual ~PreparedCall() = default;
  virtual size_t scratch_bytes() const { return 0; }
  // Operands then results; weights' pointers included. `scratch` is aligned to 64. Only a call by meanings can fail
  // once it is prepared.
  virtual Result<void> run(std::span<void* const> buffers, void* scratch) = 0;
  double flops = 0;     // of one run, for the profile
  double bytes = 0;     // read and written
  size_t repacked = 0;  // bytes that it keeps of weights in another layout than the program's
  std::string note;     // "c1.weight repacked at load"
  std::string detail;   // what the library chose, for the profile
};

class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual const char* name() const = 0;  // "onednn.convolution"
  // "" if this kernel can run `body` (symbolic types), else the reason why not. The same on every CPU: a program may
  // run on another one than it was lowered on. What was not refused once had better never be: programs are kept.
  virtual std::string refusal(const ir::Graph& body) const = 0;
  // "" if this kernel is to be chosen for a body that it can run, else why another one is expected to be faster.
  virtual std::string drawback(const ir::Graph& /*body*/) const { return ""; }
  // Whether a chain of nodes may begin here that this kernel takes as one, composites and all: attention written out.
  virtual bool may_begin(const ir::Node&) const { return false; }
  // The layout that this kernel wants for a weight operand, asked by lower at the sizes of the hints; nullopt: as it
  // is. Depends on the sizes, site.threads and the CPU's instruction set alone.
  virtual std::optional<ir::BlockedLayout> weight_layout(const CallSite&, size_t /*operand*/) const {
    return std::nullopt;
  }
  // The same of a weight of which 16 bits lose nothing, if the kernel reads it so.
  virtual std::optional<ir::BlockedLayout> half_layout(const CallSite&, size_t /*operand*/) const {
    return std::nullopt;
  }
  // Whether such a weight may as well stay in rows: the program then stores it once where others read its rows.
  virtual bool takes_rows() const { return false; }
  // Axis order that the kernel wants for its tensors ({0,2,3,1} is channels last), or empty for no wish.
  virtual std::vector<int> preferred_order(const ir::Graph& /*body*/) const { return {}; }
  // Whether the result had best lie as the first operand does, if that has as many axes.
  virtual bool keeps_order(const ir::Graph& /*body*/) const { return false; }
  // Whether the last axis of an operand must lie element by element.
  virtual bool reads_rows(const ir::Graph& /*body*/, size_t /*operand*/) const { return false; }
  // Whether the result, of so many axes, may lie so that this one's elements are neighbours.
  virtual bool writes_along(size_t /*axis*/, size_t /*rank*/) const { return true; }
  // Whether all axes of an operand but the last are one to the kernel, in whatever order they lie.
  virtual bool joins_rows(const ir::Graph& /*body*/, size_t /*operand*/) const { return false; }
  // Whether operands and results must lie in rows altogether.
  virtual bool needs_rows() const { return false; }
  // Whether a run reads this operand; if not, it is there for the meaning alone, and the call says `unread=[operand]`.
  virtual bool reads(const ir::Graph& /*body*/, size_t /*operand*/) const { return true; }
  // Whether the result may take over the buffer of this operand: a residual that is added in place.
  virtual bool may_overwrite(const ir::Graph& /*body*/, size_t /*operand*/) const { return false; }
  virtual Result<std::unique_ptr<PreparedCall>> prepare(const CallSite& site) const = 0;
};

// The kernel's call for a site; one that does nothing where all results are empty: kernels need not think of that.
Result<std::unique_ptr<PreparedCall>> prepare(const Kernel& kernel, const CallSite& site);

// Says that no more calls are prepared for now. Of oneDNN's 42 MB of code, starting it and generating machine code have
// touched 11 to 17 MB, and runs need little: the system has the rest back, until it is needed again.
void end_preparing();

// A body by the loops of its meanings, compiled for the site's sizes; an error where they have to be evaluated instead.
Result<std::unique_ptr<PreparedCall>> prepare_loops(const CallSite& site);

// Why this kernel is not chosen for `body`, for `lower --explain`: its refusal, else its drawback. "": it may be.
std::string objection(const Kernel& kernel, const ir::Graph& body);

// All kernels, in order of preference.
std::span<const Kernel* const> all();
const Kernel* find(const std::string& name);

// Copies a weight into a layout, and back into rows.
Tensor pack(const Tensor& tensor, const ir::BlockedLayout& layout);  // result: 1-D bytes
Tensor unpack(const ir::Weight& weight);                             // plain contiguous, f32 where that is meant

}  // namespace atenon::kernels
