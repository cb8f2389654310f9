// Blocks travel in programs, so their text is untrusted: reading it, inferring and deriving loops end in a result or an
// error.
#include <cstddef>
#include <cstdint>

#include "opset/call.h"

using namespace atenon;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // The rules and a few operators to call, loaded anew each time: what is added must not outlive its input.
  Result<std::unique_ptr<opset::Opset>> opset = opset::Opset::load("opsets");
  if (!opset) return 0;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!(*opset)->add(text, "fuzz.ops")) return 0;
  ir::Graph graph;
  ir::Value* x = graph.add_input("x", ir::TensorMeta{.sizes = {ir::SymInt::symbol("b"), 3}});
  ir::Value* i = graph.add_input("i", ir::TensorMeta{.dtype = ScalarType::i64, .sizes = {2}});
  const std::vector<std::vector<ir::Argument>> calls = {{x}, {x, x}, {x, 1}, {x, 0, i}, {x, ir::ArgumentList{1}}};
  for (size_t at = text.find("op "); at != std::string::npos; at = text.find("op ", at + 1)) {
    const std::string target = text.substr(at + 3, text.find('(', at) - at - 3);
    const opset::Operator* op = (*opset)->find(target);
    if (!op) continue;
    for (const std::vector<ir::Argument>& arguments : calls) {
      const Result<opset::Call> call = opset::bind(*op, arguments, {});
      if (!call) continue;
      (void)opset::infer(**opset, *call, {});
      (void)opset::meaning(**opset, *call, {});
      (void)opset::expand(**opset, *call, {}, graph, nullptr, 0);
    }
  }
  return 0;
}
