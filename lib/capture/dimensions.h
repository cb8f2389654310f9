// Dynamic dimensions: which sizes of the example inputs are symbols, and what is promised of those.
#pragma once

#include "capture/session.h"

namespace atenon::capture {

// A place among the inputs as a name in the graph: "cache.0.1" is %cache_0_1, and "x[1]" is x_1.
std::string value_name(const std::string& path);

class Dimensions {
 public:
  explicit Dimensions(Session& session) : session_(session) {}

  // The range of a symbol, whatever else says (--dynamic).
  void narrow(const std::string& name, shape::Range range) { ranges_[name] = range; }
  const std::map<std::string, shape::Range>& narrowed() const { return ranges_; }
  // What symbols are, whatever the example's sizes.
  void fix(const shape::Bindings& sizes) { fixed_ = sizes; }

  // A size in terms of symbols, whose hints follow from the example where the size is one symbol, or an increasing
  // linear function of one (2*half); `source` is "x[0]". False with a Python exception (E0306).
  bool match(const SymInt& size, int64_t example, const std::string& source);
  // Puts symbols into `sizes` (the example's) as `spec` says, a dict from axes to dimensions or None; a dimension is
  // a torch.export.Dim, one derived from it (2 * batch), Dim.AUTO and its like, a name, an int or None.
  bool apply(PyObject* spec, std::vector<SymInt>& sizes, const std::string& path);
  // An integer that is passed as one: the symbol `name` where `dim` says that it may differ, else itself.
  std::optional<SymInt> number(PyObject* dim, int64_t example, const std::string& name, const std::string& path);
  // A value for a size that no example gives: where new symbols are 2, if their ranges allow.
  std::optional<int64_t> example_of(const SymInt& size);
  // When all inputs are there: a dimension that no size is itself (2 * half, and nowhere half) gives its place to a
  // symbol for the size that it was derived for.
  void solve_derived();

 private:
  // A size factor * root + offset, the first that mentions the root.
  struct Derived {
    SymInt size;
    int64_t factor, offset, example;
    std::string place;
  };
  bool declare(const std::string& name, shape::Range range, int64_t hint, const std::string& source);
  // Declares `root`, which no size has been itself so far, for a size that is a function of it alone.
  bool derive(const SymInt& size, const std::string& root, shape::Range range, int64_t example,
              const std::string& source);
  std::optional<SymInt> derived_size(PyObject* dim, PyObject* root, int64_t example, const std::string& source);
  std::optional<SymInt> size_from(PyObject* dim, int64_t example, const std::string& source);

  Session& session_;
  std::map<std::string, shape::Range> ranges_;
  shape::Bindings fixed_;
  std::map<std::string, Derived> derived_;  // by the root
};

}  // namespace atenon::capture
