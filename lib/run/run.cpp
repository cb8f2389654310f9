// `atenon run`: load, run, and say what was asked for.
#include "run/run.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <regex>

#include "arrays/arrays.h"
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

std::string benchmark_report(std::vector<double> seconds, bool json) {
  std::sort(seconds.begin(), seconds.end());
  double least = seconds.front() * 1e3, median = seconds[seconds.size() / 2] * 1e3,
         slow = seconds[seconds.size() * 9 / 10] * 1e3;
  if (json) {
    return json_text(
               {{"schema", 1}, {"runs", seconds.size()}, {"min_ms", least}, {"median_ms", median}, {"p90_ms", slow}}) +
           "\n";
  }
  char line[128];
  snprintf(line, sizeof line, "%zu runs: min %.3f ms, median %.3f ms, 90 %% %.3f ms\n", seconds.size(), least, median,
           slow);
  return line;
}

}  // namespace

Result<Outcome> execute(ir::ExportedProgram program, const Options& options,
                        const std::function<Result<const opset::Opset*>()>& opset) {
  set_threads(options.threads);
  if (Result<void> added = program::add_kernel_libraries(program, options.kernels); !added) return added.error();
  Result<std::unique_ptr<Session>> loaded =
      Session::load(std::move(program), options.entry, {options.reference, opset, options.seed});
  if (!loaded) return loaded.error();
  Session& session = **loaded;
  if (options.memory && options.inputs.empty() && options.input_files.empty()) {
    Result<std::string> planned = memory_at(session, options.sizes, options.json);
    if (!planned) return planned.error();
    return Outcome{Status::ok, std::move(*planned)};
  }
  if (!options.sizes.empty())
    return error(Status::usage, 628, "--size is for --memory without inputs, which have sizes of their own");
  // What cannot be written is not computed first.
  const std::vector<Leaf>& leaves = session.outputs();
  const auto written = leaves.size() - static_cast<size_t>(std::count_if(leaves.begin(), leaves.end(), is_word));
  for (const auto& [path, count] : {std::pair{&options.output, written},
                                    {&options.state, session.changing_state().size()},
                                    {&options.dump, size_t{1}}})
    if (Result<void> known = path->empty() ? Result<void>() : arrays::check_format(*path, count); !known)
      return known.error();
  if (!options.nodes.empty() && options.dump.empty())
    return error(Status::usage, 624, "--nodes chooses what --dump FILE writes, which is not given");
  Result<Inputs> inputs = read_inputs(session, options.inputs, options.input_files);
  if (!inputs) return inputs.error();

  std::error_code unreadable;  // of such a file, reading says more
  if (!options.state.empty() && (std::filesystem::exists(options.state, unreadable) || unreadable)) {
    Result<std::vector<arrays::Array>> kept = arrays::read(options.state);
    if (!kept) return kept.error();
    for (const arrays::Array& array : *kept)
      if (Result<void> restored = session.restore(array.name, array.tensor); !restored) return restored.error();
  }

  Outcome outcome;
  Profile profile(session.program());
  Dump dump;
  if (!options.nodes.empty()) {
    try {
      dump.pattern.emplace(options.nodes);
    } catch (const std::regex_error& problem) {  // std's way to report a pattern that the user got wrong
      return error(Status::usage, 624, "cannot read the regular expression '" + options.nodes + "': " + problem.what());
    }
  }
  std::string odd;
  Observer observer;
  if (options.profile || options.find_nan || !options.dump.empty()) {
    observer = [&](const Observation& seen) -> Result<void> {
      if (options.profile) profile.add(seen);
      if (!options.dump.empty()) dump.take(seen);
      for (size_t i = 0; options.find_nan && odd.empty() && i < seen.results.size(); ++i) {
        if (has_odd_number(seen.results[i]))
          odd = "%" + seen.node.result(i)->name + comment(python_line(session.program(), seen.node));
      }
      return {};
    };
  }
  std::vector<Tensor> room;
  if (options.profile) {  // the first run makes plans and touches weights
    Result<std::vector<Datum>> warm = session.run(*inputs);
    if (!warm) return warm.error();
    room = room_of(*warm);
  }
  Result<std::vector<Datum>> outputs = session.run(*inputs, observer);
  if (!outputs) return outputs.error();
  for (int run = 1; options.profile && run < std::max(options.benchmark, 5); ++run) {
    if (Result<std::vector<Datum>> again = session.run(*inputs, observer, room); !again) return again.error();
  }
  if (options.find_nan) {
    outcome.status = odd.empty() ? Status::ok : Status::no;
    outcome.report += options.json  ? json_text({{"schema", 1}, {"finite", odd.empty()}, {"first", odd}}) + "\n"
                      : odd.empty() ? "all results are finite\n"
                                    : "the first NaN or infinity is in " + odd + "\n";
    for (size_t i = 0; !odd.empty() && !options.json && i < inputs->size(); ++i)
      if ((*inputs)[i] && has_odd_number(*(*inputs)[i]))
        outcome.report += "the input '" + session.inputs()[i].path + "' has one already\n";
  }
  if (options.profile) {
    const kernels::Limits limits = kernels::measure_limits();
    outcome.report += options.json ? profile.to_json(limits) : profile.to_text(limits);
  }
  if (options.benchmark > 0 && !options.profile) {
    std::vector<double> seconds;
    room = room_of(*outputs);
    for (int run = 0; run < options.benchmark; ++run) {
      auto start = std::chrono::steady_clock::now();
      outputs = session.run(*inputs, {}, room);
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      if (!outputs) return outputs.error();
    }
    outcome.report += benchmark_report(std::move(seconds), options.json);
  }
  if (options.memory) {
    Result<Memory> memory = session.memory(*inputs);
    if (!memory) return memory.error();
    outcome.report += describe(*memory, options.json);
  }
  if (!options.dump.empty()) {
    if (dump.arrays.empty() && dump.pattern)
      return error(Status::usage, 624, "the name of no node that was run has '" + options.nodes + "' in it");
    if (Result<void> written = arrays::write(options.dump, dump.arrays); !written) return written.error();
  }
  if (!options.output.empty()) {
    if (Result<void> written = write_outputs(session, *outputs, options.output); !written) return written.error();
  } else if (outcome.report.empty()) {
    outcome.report = describe_outputs(session, *outputs, options.json);
  }
  // Last, so that a run whose outputs could not be written can be repeated.
  const bool is_measured = options.profile || options.benchmark > 0;
  if (!options.state.empty() && !is_measured) {
    std::vector<arrays::Array> kept;
    for (auto& [name, tensor] : session.changing_state()) kept.push_back({name, std::move(tensor)});
    if (Result<void> written = arrays::write(options.state, kept); !written) return written.error();
  }
  return outcome;
}

}  // namespace atenon::run
