// `atenon run`: load, run, and say what was asked for.
#include "run/run.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <regex>
#include <set>

#include "arrays/arrays.h"
#include "ir/written_state.h"
#include "program/program_file.h"
#include "run/leaves.h"
#include "run/memory.h"
#include "run/profile.h"
#include "run/summary.h"
#include "support/json.h"
#include "support/parallel.h"

namespace atenon::run {
namespace {

using Inputs = std::vector<std::optional<Datum>>;

std::string comment(const std::string& line) { return line.empty() ? "" : "  # " + line; }

bool has_odd_number(const Datum& value) {
  const Tensor rows = in_reals(tensor_of(value));
  if (!is_floating(rows.dtype)) return false;
  for (int64_t i = 0, n = rows.numel(); i < n; ++i) {
    if (!std::isfinite(rows.float_at(i))) return true;
  }
  return false;
}

// Keeps the results of nodes whose name matches.
struct Dump {
  std::optional<std::regex> pattern;
  std::vector<arrays::Array> arrays;

  void take(const Observation& seen) {
    for (size_t i = 0; i < seen.results.size(); ++i) {
      const std::string& name = seen.node.result(i)->name;
      if (pattern && !std::regex_search(name, *pattern)) continue;
      Tensor rows = tensor_of(seen.results[i]).contiguous();
      Tensor copy = Tensor::empty(rows.dtype, rows.sizes);  // the arena is used again
      memcpy(copy.mutable_data(), rows.data(), rows.nbytes());
      arrays.push_back({name, std::move(copy)});
    }
  }
};

// The room that a caller has for outputs who runs a program again and again.
std::vector<Tensor> room_of(const std::vector<Datum>& outputs) {
  std::vector<Tensor> room;
  for (const Datum& output : outputs) {
    const Tensor tensor = tensor_of(output);
    room.push_back(Tensor::empty(tensor.dtype, tensor.sizes));
  }
  return room;
}

Result<void> write_outputs(const Session& session, const std::vector<Datum>& outputs, const std::string& path) {
  std::vector<arrays::Array> named;
  std::vector<std::string> names = leaf_names(session.outputs());
  for (size_t i = 0; i < names.size(); ++i)
    if (!is_word(session.outputs()[i])) named.push_back({names[i], tensor_of(outputs[i])});
  return arrays::write(path, named);
}

// What is said of a run: lines, or, as data, one object that has the fields of every report.
class Reports {
 public:
  void add(const std::string& text, const nlohmann::ordered_json& fields, int indent = 1) {
    text_ += text;
    indent_ = fields_.empty() ? indent : 1;
    fields_.update(fields);
  }
  bool is_empty() const { return fields_.empty(); }
  std::string written(bool json) const {
    if (!json || is_empty()) return text_;
    nlohmann::ordered_json all = {{"schema", 1}};
    all.update(fields_);
    return json_text(all, indent_) + "\n";
  }

 private:
  std::string text_;
  nlohmann::ordered_json fields_ = nlohmann::ordered_json::object();
  int indent_ = 1;
};

// One run, or as many as are measured, and what is said of it.
class Execution {
 public:
  Execution(Session& session, const Options& options)
      : session_(session), options_(options), profile_(session.program()) {}

  Result<Outcome> run() {
    if (Result<void> known = check_files(); !known) return known.error();
    if (Result<void> taken = take_inputs(); !taken) return taken.error();
    if (Result<void> restored = restore_state(); !restored) return restored.error();
    // Before the runs and after them: others may use the machine meanwhile.
    kernels::Limits limits;
    if (options_.profile) limits = kernels::measure_limits();
    Result<std::vector<Datum>> outputs = options_.profile ? run_profiled() : session_.run(inputs_, observer());
    if (!outputs) return outputs.error();
    if (options_.find_nan) report_odd();
    if (options_.profile) {
      const kernels::Limits again = kernels::measure_limits();
      limits.flops = std::max(limits.flops, again.flops);
      limits.bytes = std::max(limits.bytes, again.bytes);
      reports_.add(profile_.to_text(limits), profile_.to_json(limits));
    } else if (options_.benchmark > 0) {
      if (Result<void> timed = run_timed(*outputs); !timed) return timed.error();
    }
    if (options_.memory) {
      Result<Memory> memory = session_.memory(inputs_);
      if (!memory) return memory.error();
      reports_.add(to_text(*memory), to_json(*memory));
    }
    if (Result<void> written = write(*outputs); !written) return written.error();
    std::string report = reports_.written(options_.json);
    if (reports_.is_empty() && options_.output.empty()) report = describe_outputs(session_, *outputs, options_.json);
    return Outcome{odd_.empty() ? Status::ok : Status::no, std::move(report)};
  }

 private:
  // What cannot be written is not computed first.
  Result<void> check_files() {
    if (!options_.nodes.empty() && options_.dump.empty())
      return error(Status::usage, 624, "--nodes chooses what --dump FILE writes, which is not given");
    const std::vector<Leaf>& leaves = session_.outputs();
    const auto arrays = leaves.size() - static_cast<size_t>(std::count_if(leaves.begin(), leaves.end(), is_word));
    for (const auto& [path, count] : {std::pair{&options_.output, arrays},
                                      {&options_.state, session_.changing_state().size()},
                                      {&options_.dump, size_t{1}}}) {
      if (path->empty()) continue;
      if (Result<void> known = arrays::check_format(*path, count); !known) return known;
      if (*path != "-") continue;
      if (isatty(STDOUT_FILENO))
        return error(Status::usage, 8, "binary arrays are not for a terminal").note("name a file, or a pipe");
      if (options_.output.empty() || options_.profile || options_.benchmark > 0 || options_.memory || options_.find_nan)
        return error(Status::usage, 5, "standard output would get arrays and a report")
            .note("name a file for the arrays");
    }
    if (options_.state.ends_with(".npy"))
      return error(Status::usage, 814, "a .npy file has no name for the buffer that --state keeps")
          .note("a .npz file names its arrays");
    if (options_.nodes.empty()) return {};
    try {
      dump_.pattern.emplace(options_.nodes);
    } catch (const std::regex_error& problem) {  // std's way to report a pattern that the user got wrong
      return error(Status::usage, 624,
                   "cannot read the regular expression '" + options_.nodes + "': " + problem.what());
    }
    return {};
  }

  Result<void> take_inputs() {
    Result<Inputs> inputs = read_inputs(session_, options_.inputs, options_.input_files);
    if (!inputs) return inputs.error();
    inputs_ = std::move(*inputs);
    return {};
  }

  // Buffers of other entry points stay in the file as they are: calls of one and another may share it.
  Result<void> restore_state() {
    std::error_code unreadable;  // of such a file, reading says more
    if (options_.state.empty() || (!std::filesystem::exists(options_.state, unreadable) && !unreadable)) return {};
    Result<std::vector<arrays::Array>> kept = arrays::read(options_.state);
    if (!kept) return kept.error();
    const std::set<std::string> written = ir::written_state(session_.program());
    std::string names;
    bool has_one = kept->empty();
    for (arrays::Array& array : *kept) {
      names += (names.empty() ? "" : ", ") + array.name;
      has_one = has_one || written.contains(array.name);
      if (!written.contains(array.name) || !session_.has_state(array.name))
        others_.push_back(std::move(array));
      else if (Result<void> restored = session_.restore(array.name, array.tensor); !restored)
        return restored;
    }
    if (has_one) return {};
    return error(Status::usage, 625, "'" + options_.state + "' holds no buffer that the program writes")
        .note("it holds " + names);
  }

  // Of a run whose results are looked at; none where they are not, so that nothing slows it down.
  Observer observer() {
    if (!options_.profile && !options_.find_nan && options_.dump.empty()) return {};
    return [this](const Observation& seen) -> Result<void> {
      if (options_.profile) profile_.add(seen);
      if (!options_.dump.empty()) dump_.take(seen);
      for (size_t i = 0; options_.find_nan && odd_.empty() && i < seen.results.size(); ++i)
        if (has_odd_number(seen.results[i])) {
          odd_ = "%" + seen.node.result(i)->name;
          odd_line_ = python_line(session_.program(), seen.node);
        }
      return {};
    };
  }

  Result<std::vector<Datum>> run_profiled() {
    Result<std::vector<Datum>> warm = session_.run(inputs_);  // makes plans and touches weights
    if (!warm) return warm;
    std::vector<Tensor> room = room_of(*warm);
    Result<std::vector<Datum>> outputs = session_.run(inputs_, observer());
    const auto add = [this](const Observation& seen) -> Result<void> {
      profile_.add(seen);
      return {};
    };
    for (int run = 1; outputs && run < std::max(options_.benchmark, 5); ++run)
      if (Result<std::vector<Datum>> again = session_.run(inputs_, add, room); !again) return again;
    return outputs;
  }

  Result<void> run_timed(std::vector<Datum>& outputs) {
    std::vector<double> seconds;
    std::vector<Tensor> room = room_of(outputs);
    for (int run = 0; run < options_.benchmark; ++run) {
      const auto start = std::chrono::steady_clock::now();
      Result<std::vector<Datum>> again = session_.run(inputs_, {}, room);
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      if (!again) return again.error();
      outputs = std::move(*again);
    }
    report_times(std::move(seconds));
    return {};
  }

  void report_times(std::vector<double> seconds) {
    std::sort(seconds.begin(), seconds.end());
    const double least = seconds.front() * 1e3, median = seconds[seconds.size() / 2] * 1e3,
                 slow = seconds[seconds.size() * 9 / 10] * 1e3;
    char line[128];
    snprintf(line, sizeof line, "%zu runs: min %.3f ms, median %.3f ms, 90 %% %.3f ms\n", seconds.size(), least, median,
             slow);
    reports_.add(line, {{"runs", seconds.size()}, {"min_ms", least}, {"median_ms", median}, {"p90_ms", slow}}, -1);
  }

  void report_odd() {
    std::string text = odd_.empty() ? "all results are finite\n"
                                    : "the first NaN or infinity is in " + odd_ + comment(odd_line_) + "\n";
    nlohmann::ordered_json inputs = nlohmann::ordered_json::array();
    for (size_t i = 0; !odd_.empty() && i < inputs_.size(); ++i) {
      if (!inputs_[i] || !has_odd_number(*inputs_[i])) continue;
      text += "the input '" + session_.inputs()[i].path + "' has one already\n";
      inputs.push_back(session_.inputs()[i].path);
    }
    reports_.add(text, {{"finite", odd_.empty()}, {"first", odd_}, {"line", odd_line_}, {"inputs", inputs}}, -1);
  }

  Result<void> write(const std::vector<Datum>& outputs) {
    if (!options_.dump.empty()) {
      if (dump_.arrays.empty() && dump_.pattern)
        return error(Status::usage, 624, "the name of no node that was run has '" + options_.nodes + "' in it");
      if (Result<void> written = arrays::write(options_.dump, dump_.arrays); !written) return written;
    }
    if (!options_.output.empty())
      if (Result<void> written = write_outputs(session_, outputs, options_.output); !written) return written;
    // Last, so that a run whose outputs could not be written can be repeated.
    const bool is_measured = options_.profile || options_.benchmark > 0;
    if (options_.state.empty() || is_measured) return {};
    std::vector<arrays::Array> kept;
    for (auto& [name, tensor] : session_.changing_state()) kept.push_back({name, std::move(tensor)});
    kept.insert(kept.end(), others_.begin(), others_.end());
    return arrays::write(options_.state, kept);
  }

  Session& session_;
  const Options& options_;
  Inputs inputs_;
  Profile profile_;
  Dump dump_;
  std::vector<arrays::Array> others_;  // of the state's file, which this entry point neither reads nor writes
  std::string odd_, odd_line_;         // the first result with a NaN or infinity, and its line of Python
  Reports reports_;
};

}  // namespace

Result<Outcome> execute(ir::ExportedProgram program, const Options& options,
                        const std::function<Result<const opset::Opset*>()>& opset) {
  set_threads(options.threads);
  if (Result<void> added = program::add_kernel_libraries(program, options.kernels); !added) return added.error();
  Result<std::unique_ptr<Session>> loaded =
      Session::load(std::move(program), options.entry, {options.reference, opset, options.seed});
  if (!loaded) return loaded.error();
  if (options.memory && options.inputs.empty() && options.input_files.empty()) {
    Result<std::string> planned = memory_at(**loaded, options.sizes, options.json);
    if (!planned) return planned.error();
    return Outcome{Status::ok, std::move(*planned)};
  }
  if (!options.sizes.empty())
    return error(Status::usage, 628, "--size is for --memory without inputs, which have sizes of their own");
  return Execution(**loaded, options).run();
}

}  // namespace atenon::run
