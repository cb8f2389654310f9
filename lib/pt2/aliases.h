// Updates in place and views as functions of values. Private to lib/pt2.
//
// A Memory is what PyTorch would call a storage: its content is a value of the graph, and an update makes another value
// its content. A View is a tensor: a chain of view operators on a memory. Reading a tensor whose memory was written
// since applies the chain anew; writing to one puts the new elements back through the chain, by the inverse of a view,
// by its operator's `_scatter`, or by the positions that its elements have in the memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "opset/call.h"

namespace atenon::pt2 {

// A view operator, applied to what stands before it in the chain.
struct Step {
  opset::Call call;  // the viewed tensor is its first argument; it is replaced on use
  size_t result = 0;
};

struct Memory {
  ir::Value* content = nullptr;
  int version = 0;
  // Some tensor may share it or be a copy, depending on strides: an update then has no certain meaning.
  std::string doubtful;
};

struct View {
  std::shared_ptr<Memory> memory;
  std::vector<Step> chain;
  ir::Value* value = nullptr;  // as of version `seen`
  int seen = 0;

  static View fresh(ir::Value* value) { return {std::make_shared<Memory>(Memory{value}), {}, value, 0}; }
};

class Aliases {
 public:
  // How nodes are appended to the graph.
  using Append = std::function<Result<ir::Node*>(const std::string& target, std::vector<ir::Argument> arguments)>;
  using AppendCall = std::function<Result<ir::Node*>(const opset::Call& call)>;
  Aliases(Append append, AppendCall append_call) : append_(std::move(append)), append_call_(std::move(append_call)) {}

  // The tensor's present value.
  Result<ir::Value*> read(View& view) const;
  // Makes `value` the content of what the tensor shows. It must have the tensor's type but for its dtype, to which it
  // is converted. E0825 where it is not certain whether others see the update.
  Result<void> write(View& view, ir::Value* value) const;

 private:
  Result<ir::Value*> apply(const Step& step, ir::Value* viewed) const;
  Result<ir::Value*> put_back(const Step& step, ir::Value* viewed, ir::Value* content) const;
  Result<ir::Value*> only(const std::string& target, std::vector<ir::Argument> arguments) const;

  Append append_;
  AppendCall append_call_;
};

}  // namespace atenon::pt2
