// For tests: a lowered program of one linear layer, large enough for several threads.
#pragma once

#include <string>

namespace atenon::run {

// Sixteen rows go by vectors on every CPU, 64 by the matrix unit where there is one.
inline std::string wide_linear(int rows) {
  const std::string n = std::to_string(rows);
  return R"text(program 1.0
opset "aten" 1

entry "forward"
  input %x: user_input "x"
  input %w: user_input "w"
  output user_output "y"
  input_tree (x: *, w: *)
  output_tree {y: *}
  annotate {slots=[], arena=0}
  graph(%x: f32[)text" +
         n + R"text(, 128], %w: f32[512, 128])
    %y: f32[)text" +
         n + R"text(, 512] = atenon::call(@linear, %x, %w) {kernel="panels", slots=[-1]}
    return (%y)
  subgraph @linear(%x: f32[)text" +
         n + R"text(, 128], %w: f32[512, 128])
    %linear: f32[)text" +
         n + R"text(, 512] = aten::linear(%x, %w)
    return (%linear)
)text";
}

}  // namespace atenon::run
