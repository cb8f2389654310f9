// Where the time of a run goes: by call, with the line of Python that each comes from.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/machine_limits.h"
#include "run/engine.h"
#include "support/json.h"

namespace atenon::run {

class Profile {
 public:
  explicit Profile(const ir::ExportedProgram& program) : program_(program) {}

  void add(const Observation& seen);
  // A table, the slowest call first, and the sum by kernel. Times are medians over the runs that were added; the
  // fraction of the machine's limit is the time that the limits allow by the time that it took. Above 100 % operands
  // were in a cache.
  std::string to_text(const kernels::Limits& limits) const;
  nlohmann::ordered_json to_json(const kernels::Limits& limits) const;  // {"limits": {...}, "calls": [...]}

 private:
  struct Row {
    std::string name, kernel, line;
    std::vector<double> seconds;
    double flops = 0, bytes = 0;
    double median() const;
    double of_limit(const kernels::Limits& limits) const;
  };
  std::vector<const Row*> slowest_first() const;

  const ir::ExportedProgram& program_;
  std::vector<Row> rows_;  // in the order of the program
  std::map<const ir::Node*, size_t> index_;
};

}  // namespace atenon::run
