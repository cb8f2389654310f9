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

  // Nests that share their variables, hence their loops. `extents` and `strides` are the results'; lanes run along the
  // smallest stride.
  Result<LoopProgram> nests(const std::vector<int>& which, const std::vector<int64_t>& extents,
                            const std::vector<int64_t>& strides);
  Result<LoopProgram> scatter(const std::vector<int64_t>& extents);

 private:
  void begin(std::vector<int> lane_variables, std::vector<int64_t> lane_extents);
  void merge_lane_variables();
  void note_what_varies();
  void hold_alike(Step& step, int scope);
  Register emit(opset::ScalarId id);
  Register emit_step(Step step, int scope);
  Register operand(opset::ScalarId id, int scope);
  Register fresh(bool fallible, bool is_single = false);
  // The same number held as a float of 32 bits, or of 64.
  Register held_as(Register r, bool is_single, int scope);
  bool fallible(Register r) const { return program_.fault_of[size_t(r)] >= 0; }
  void emit_read(opset::ScalarId id, Step& step, int scope);
  Register emit_reduction(const opset::Scalar& scalar, int scope);
  void plan_reduction(int number, int scope);  // to run in `scope`
  void emit_join(const opset::Monoid& monoid, ReductionPlan& plan);
  // A number as partial results hold it: floats in 64 bits.
  Register wide(opset::ScalarId id, int scope);
  // The truths of a guard, each as a sum that is at most 0.
  void collect_conditions(opset::ScalarId guard, std::vector<LinearForm>& conditions);
  // Is this index of an axis of `size` inside of it, by itself or by the conditions?
  bool is_inside(opset::ScalarId index, int64_t size, const std::vector<LinearForm>& conditions);
  // The reduction as a sum of products, if it is one; reorders the plan's variables.
  std::optional<Product> product_of(const opset::Reduction& reduction, ReductionPlan& plan);
  // The variables in a form, a bit each; nullopt where it holds more than these and their quotients.
  std::optional<uint64_t> variables_of(const LinearForm& form) const;
  Register emit_form(const LinearForm& form, int scope);
  Address address_of(const LinearForm& form, int scope);
  int scope_of(uint64_t variables) const;
  int lane_owner(int scope) const;

  const opset::Meaning& meaning_;
  const std::vector<Tensor>& operands_;
  IndexForms& forms_;
  std::vector<int64_t> sizes_;
  std::vector<double> size_floats_;
  LoopProgram program_;
  std::vector<uint64_t> dependences_;  // of scalars: a bit for each variable
  std::vector<Register> registers_;    // of scalars, once emitted
  std::vector<int> register_scope_;
  std::vector<int> stack_;  // scopes being emitted, outermost first
  std::map<std::pair<int, Register>, Register> imports_;
  std::map<std::pair<int, Register>, Register> held_;  // scope, register -> the same number held the other way
  std::map<int, int> plans_;                           // reduction -> plan
  Register mask_ = no_register;                        // the guard of the elements being emitted, and what it says
  int mask_scope_ = 0;
  std::vector<LinearForm> conditions_;
  opset::ScalarId summand_ = opset::no_scalar;  // computed in double, since it is only added up
  bool spread_ = false;
};

}  // namespace atenon::reference
