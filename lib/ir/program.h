// ExportedProgram: the one thing that every stage reads and writes.
//
// A freshly captured model, a decomposed one, a lowered one and a package are all an ExportedProgram. It is moved from
// stage to stage; clone() copies graphs but shares the bytes of weights.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ir/signature.h"
#include "shape/facts.h"

namespace atenon::ir {

// One Python frame. `file` is relative to the model file or its package: programs hold no absolute paths.
struct Frame {
  std::string file;
  int line = 0;
  std::string function;
  std::string code;  // the source line, trimmed
  bool operator==(const Frame&) const = default;
};
// Stacks share their frames: most of a model's begin in the same way.
using SharedFrame = std::shared_ptr<const Frame>;

// Where a node comes from: outermost frame first, and the module whose forward was running.
struct CallStack {
  std::vector<SharedFrame> frames;
  std::string module_path;   // "layers.0.attention"; "" is the model itself
  std::string module_class;  // "bert.Attention"
  // The operators of the program as captured that this node stands for ("aten::layer_norm"), outermost first.
  std::vector<std::string> made_from;
  bool operator==(const CallStack& other) const;
  // Where the user's Python was: "net.py:12: x = x + 1"; empty where that is not known.
  std::string place() const;
};

// Interned call stacks. Entry 0 is the empty stack.
class Provenance {
 public:
  Provenance();
  ProvenanceId intern(CallStack stack);
  // The stack of `id` with one more operator in its chain.
  ProvenanceId derive(ProvenanceId id, const std::string& made_from);
  const CallStack& at(ProvenanceId id) const { return stacks_[id < stacks_.size() ? id : 0]; }
  size_t size() const { return stacks_.size(); }

 private:
  std::vector<CallStack> stacks_;
  std::unordered_multimap<size_t, ProvenanceId> index_;  // by hash; only looked up
};

// How a weight's bytes lie in its storage when they are not strided: blocks as in oneDNN, written down, never opaque.
// Element (i0, i1, ...) is at sum over axes of (i / block product of the axis) * stride[axis], plus its place in the
// inner blocks, which are listed outermost first. Padding up to whole blocks is zero.
struct BlockedLayout {
  std::vector<int64_t> strides;                       // elements, of the outer (block) indices, one an axis
  std::vector<std::pair<int, int64_t>> inner_blocks;  // axis, size
  int64_t padded_bytes = 0;                           // of the whole
  bool operator==(const BlockedLayout&) const = default;
  std::string to_string() const;  // [s0,s1,..]:1b16,0b64
};

// A named piece of state: a view of a storage. Tied weights hold the same Storage object.
struct Weight {
  std::string name;  // fully qualified: "layers.0.query.weight"
  Tensor tensor;     // sizes are the logical ones; where `layout` is set, strides are contiguous and not meant
  std::optional<BlockedLayout> layout = std::nullopt;

  // Of the graph's input: in a layout, floats of 16 bits stand for f32 ones that they hold exactly.
  ScalarType dtype() const { return layout ? widened(tensor.dtype) : tensor.dtype; }
};

// A dynamic dimension, or a size that a node yields.
struct Symbol {
  std::string name;
  shape::Range range = {0, shape::Range::highest};
  std::optional<int64_t> hint = std::nullopt;  // its value in the example inputs
  std::string source;                          // "x[0]": the input dimension it is read from; "" if a node defines it
};

// The name of the n-th size that a node yields: u0, u1, ..., but never u8, which is a dtype.
std::string unbacked_name(int n);
int unbacked_after(const std::string& name);  // the n of the first that comes after it; 0 if it is no such name

// The graph under some assumptions. The first variant whose assumptions hold is run.
struct Variant {
  std::string name;  // "" for the only one
  std::vector<Constraint> assumptions;
  std::vector<Constraint> guarantees;
  Graph graph;
  std::map<std::string, Graph> subgraphs;  // by name, scope: this variant
  std::vector<Named> annotations;          // after lower: the arena

  Variant clone() const;
  // Puts expressions for symbols, all at once, wherever the variant speaks of them.
  void substitute(const shape::Substitution& by);
};

struct EntryPoint {
  std::string name = "forward";
  std::vector<Symbol> symbols;
  GraphSignature signature;
  std::vector<Variant> variants;

  const Symbol* symbol(const std::string& name) const;
  // Ranges of the symbols and the variant's assumptions.
  shape::Facts facts(const Variant& variant) const;
  // The same inside of one of its subgraphs, which has assumptions of its own.
  shape::Facts facts(const Variant& variant, const Graph& subgraph) const;
};

// A tool that ran, with the options that changed the result.
struct HistoryEntry {
  std::string tool;
  std::string version;
  std::vector<std::string> options;
};

struct OpsetUse {
  std::string name;  // "aten"
  int version = 1;
};

// Machine code, linked and position independent, for one target.
struct CodeSegment {
  std::string name;    // what annotations refer to
  std::string target;  // "x86_64-avx512": architecture and features it needs, resolved
  std::shared_ptr<Storage> bytes;
  bool is_library = false;  // the user's own kernels, for custom operators
};

// A file that travels with the program and means nothing to it: the labels of a classifier, a tokenizer.
struct ExtraFile {
  std::string name;
  std::shared_ptr<Storage> bytes;
};

struct ExportedProgram {
  std::vector<OpsetUse> opsets;
  std::vector<std::string> custom_blocks;  // texts of operators that are not built in
  Provenance provenance;
  std::vector<Weight> weights;  // by the names that signatures use
  std::vector<EntryPoint> entries;
  std::vector<CodeSegment> code;
  std::vector<ExtraFile> extra_files;  // of different names
  std::vector<HistoryEntry> history;

  ExportedProgram clone() const;
  const Weight* weight(const std::string& name) const;
  const ExtraFile* extra_file(const std::string& name) const;
  EntryPoint* entry(const std::string& name);  // "" is the first
  const EntryPoint* entry(const std::string& name) const;
};

}  // namespace atenon::ir
