// Integer expressions of a Meaning at concrete sizes, as sums: constant + sum of coefficient * atom.
//
// An atom is a loop variable, a floor division that does not come out even, or a scalar that is no sum (min, read,
// ...). A modulus is written as x - m*(x//m), divisions by several numbers in turn as one. So the index that a `view`
// computes by ravel and unravel telescopes to plain strides whenever strides can say it, and a read whose address is a
// sum of loop variables alone becomes a strided load.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "opset/meaning.h"

namespace atenon::reference {

// Inclusive, saturating far beyond any real index.
struct Interval {
  int64_t lower = 0;
  int64_t upper = 0;
  bool within(int64_t from, int64_t to) const { return from <= lower && upper <= to; }
};

struct LinearForm {
  int64_t constant = 0;
  std::map<int, int64_t> terms;  // atom -> coefficient, never 0

  bool operator<(const LinearForm& other) const {
    return constant != other.constant ? constant < other.constant : terms < other.terms;
  }
};

LinearForm sum(const LinearForm& a, const LinearForm& b, int64_t factor_of_b = 1);

class IndexForms {
 public:
  // `sizes` holds the value of every ScalarOp::size scalar, by its id.
  IndexForms(const opset::Meaning& meaning, std::vector<int64_t> sizes);

  // Extents of a nest's or scatter's variables; those of reductions follow from their extents' scalars.
  void set_extent(int variable, int64_t extent) {
    ranges_[static_cast<size_t>(variable)] = {0, extent > 0 ? extent - 1 : 0};
  }
  void set_range(int variable, Interval range) { ranges_[static_cast<size_t>(variable)] = range; }

  const LinearForm& form(opset::ScalarId id);
  Interval interval(opset::ScalarId id);
  Interval interval(const LinearForm& form);
  // Loop variables only: no divisions, no opaque scalars.
  bool is_affine(const LinearForm& form) const;
  struct Atom {
    opset::ScalarId scalar = opset::no_scalar;  // opaque, or a division:
    LinearForm numerator;
    int64_t divisor = 0;
  };
  // Null for a loop variable.
  const Atom* atom_of(int term) const {
    return term < meaning_.variable_count ? nullptr : &atoms_[static_cast<size_t>(term - meaning_.variable_count)];
  }

 private:
  LinearForm divide(const LinearForm& numerator, int64_t divisor);
  LinearForm compute(opset::ScalarId id);
  Interval compute_interval(opset::ScalarId id);
  int atom(Atom atom);

  const opset::Meaning& meaning_;
  std::vector<int64_t> sizes_;
  std::vector<Interval> ranges_;
  std::vector<Atom> atoms_;  // atom number `variable_count + i`
  std::map<std::pair<LinearForm, int64_t>, int> divisions_;
  std::vector<std::optional<LinearForm>> forms_;
  std::vector<std::optional<Interval>> intervals_;
};

}  // namespace atenon::reference
