// From a Meaning to LoopPrograms.
#pragma once

#include <map>
#include <vector>

#include "reference/index_forms.h"
#include "reference/loop_program.h"

namespace atenon::reference {

// One compiler makes one program.
class LoopCompiler {
 public:
  // `sizes`: values of the scalars of op `size`; `size_floats` of `size_float`.
  LoopCompiler(const opset::Meaning& meaning, const std::vector<Tensor>& operands, IndexForms& forms,
               std::vector<int64_t> sizes, std::vector<double> size_floats);

  // Nests that share their variables, hence their loops. `extents` are the result's sizes.
  Result<LoopProgram> nests(const std::vector<int>& which, const std::vector<int64_t>& extents);
  Result<LoopProgram> scatter(const std::vector<int64_t>& extents);

 private:
  void begin(std::vector<int> lane_variables, std::vector<int64_t> lane_extents);
  void merge_lane_variables();
  Register emit(opset::ScalarId id);
  Register emit_step(Step step, int scope);
  Register operand(opset::ScalarId id, int scope);
  Register fresh(bool fallible);
  bool fallible(Register r) const { return program_.fault_of[size_t(r)] >= 0; }
  void emit_read(opset::ScalarId id, Step& step, int scope);
  Register emit_reduction(const opset::Scalar& scalar, int scope);
  Address address_of(const LinearForm& form, int scope);
  int scope_of(uint64_t variables) const;
  int lane_owner(int scope) const;

  const opset::Meaning& meaning_;
  const std::vector<Tensor>& operands_;
  IndexForms& forms_;
  std::vector<int64_t> sizes_;
  std::vector<double> size_floats_;
  LoopProgram program_;
  std::vector<uint64_t> dependences_;      // of scalars: a bit for each variable
  std::vector<Register> registers_;        // of scalars, once emitted
  std::vector<int> register_scope_;
  std::vector<int> stack_;                 // scopes being emitted, outermost first
  std::map<std::pair<int, Register>, Register> imports_;
  std::map<int, int> plans_;               // reduction -> plan
  bool spread_ = false;
};

}  // namespace atenon::reference
