// The C functions of atenon.h over Session. Nothing throws across them.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "program/program_file.h"
#include "run/atenon.h"
#include "run/engine.h"
#include "run/leaves.h"
#include "support/exceptions.h"
#include "support/idle.h"
#include "support/parallel.h"

struct atenon_session {
  std::unique_ptr<atenon::run::Session> session;
  std::unique_ptr<atenon::opset::Opset> opset;
  atenon::Idle<std::vector<atenon::run::Rows>> rows;  // inputs and outputs of a run
};

namespace {

using namespace atenon;

atenon_status fail(const Diagnostic& diagnostic, char** message) {
  if (message) *message = strdup(diagnostic.render("atenon").c_str());
  return static_cast<atenon_status>(diagnostic.status);
}

// What `call` fails with, or an exception from below, as a status.
template <class Call>
atenon_status answer(char** message, const Call& call) {
  try {
    const Result<void> done = call();
    return done ? ATENON_OK : fail(done.failure(), message);
  } catch (const std::exception& problem) {
    return fail(explain(problem), message);
  }
}

Tensor tensor_of(const atenon_tensor& given) {
  std::vector<int64_t> sizes(given.sizes, given.sizes + given.rank);
  Tensor tensor{static_cast<ScalarType>(given.dtype), sizes, contiguous_strides(sizes), 0, nullptr};
  tensor.storage = Storage::view(given.data, tensor.nbytes(), nullptr, true);
  return tensor;
}

bool has_valid_type(const atenon_tensor& given) {
  if (given.rank < 0 || given.dtype < ATENON_F16 || given.dtype > ATENON_C128 || (given.rank > 0 && !given.sizes))
    return false;
  return run::is_countable(static_cast<ScalarType>(given.dtype), {given.sizes, static_cast<size_t>(given.rank)});
}

// Empty tensors need none.
bool has_data(const atenon_tensor& given) {
  return given.data || std::find(given.sizes, given.sizes + given.rank, 0) != given.sizes + given.rank;
}

Diagnostic without_data(const char* leaf, size_t i) {
  return error(Status::usage, 603, leaf + std::string(" ") + std::to_string(i) + " has no data");
}

Result<std::vector<std::optional<run::Datum>>> inputs_of(const run::Session& session, const atenon_tensor* inputs,
                                                         size_t count) {
  std::vector<std::optional<run::Datum>> values;
  for (size_t i = 0; i < count; ++i) {
    if (!has_valid_type(inputs[i]))
      return error(Status::usage, 603, "input " + std::to_string(i) + " has no valid type");
    Tensor tensor = tensor_of(inputs[i]);
    const auto* kind = i < session.inputs().size() ? std::get_if<ir::ScalarKind>(&session.inputs()[i].type) : nullptr;
    if (kind && !has_data(inputs[i])) return without_data("input", i);
    std::optional<run::Datum> number = kind ? run::number_of(tensor, *kind) : std::nullopt;
    values.push_back(number ? std::move(*number) : run::Datum(std::move(tensor)));
  }
  values.resize(std::max(values.size(), session.inputs().size()));
  return values;
}

// The usual call: tensors of sizes that were seen before. No where it is anything else.
Result<bool> run_again(atenon_session& session, const atenon_tensor* inputs, size_t input_count,
                       const atenon_tensor* outputs, size_t output_count) {
  std::unique_ptr<std::vector<run::Rows>> rows = session.rows.take();
  if (!rows) rows = std::make_unique<std::vector<run::Rows>>();
  rows->clear();
  for (size_t i = 0; i < input_count + output_count; ++i) {
    const atenon_tensor& tensor = i < input_count ? inputs[i] : outputs[i - input_count];
    if (!has_valid_type(tensor) || !has_data(tensor)) return false;
    rows->push_back(
        {static_cast<ScalarType>(tensor.dtype), {tensor.sizes, static_cast<size_t>(tensor.rank)}, tensor.data});
  }
  const std::span<const run::Rows> all = *rows;
  Result<bool> ran = session.session->run_again(all.first(input_count), all.subspan(input_count));
  session.rows.give(std::move(rows));
  return ran;
}

int type_of(const run::Leaf& leaf, atenon_dtype* dtype, int64_t* sizes, int capacity) {
  if (const ir::ScalarKind* kind = std::get_if<ir::ScalarKind>(&leaf.type)) {
    if (dtype)
      *dtype = *kind == ir::ScalarKind::integer    ? ATENON_I64
               : *kind == ir::ScalarKind::floating ? ATENON_F64
                                                   : ATENON_BOOL;
    return 0;
  }
  const ir::TensorMeta& meta = std::get<ir::TensorMeta>(leaf.type);
  if (dtype) *dtype = static_cast<atenon_dtype>(meta.dtype);
  for (int i = 0; sizes && i < meta.rank() && i < capacity; ++i) sizes[i] = meta.sizes[i].constant().value_or(-1);
  return meta.rank();
}

// Where an installation has the operators, seen from this library; "" where it was deployed alone.
std::string installed_opsets() {
  Dl_info here;
  if (dladdr(reinterpret_cast<const void*>(&installed_opsets), &here) == 0 || !here.dli_fname) return "";
  std::error_code failure;
  const std::filesystem::path library = std::filesystem::canonical(here.dli_fname, failure);
  const std::filesystem::path folder = library.parent_path().parent_path() / "share" / "atenon" / "opsets";
  return !failure && std::filesystem::is_directory(folder, failure) ? folder.string() : "";
}

Result<void> load(Result<ir::ExportedProgram> program, const atenon_options* options, atenon_session** session) {
  if (!program) return program.error();
  auto made = std::make_unique<atenon_session>();
  run::LoadOptions load_options;
  const std::string opsets = options && options->opsets ? options->opsets : installed_opsets();
  if (!opsets.empty())
    load_options.opset = [folder = opsets, owner = made.get()]() -> Result<const opset::Opset*> {
      Result<std::unique_ptr<opset::Opset>> loaded = opset::Opset::load(folder);
      if (!loaded) return loaded.error();
      owner->opset = std::move(*loaded);
      for (const std::string& block : owner->session->program().custom_blocks)
        if (Result<void> added = owner->opset->add(block, "the program"); !added) return added.error();
      return static_cast<const opset::Opset*>(owner->opset.get());
    };
  auto loaded =
      run::Session::load(std::move(*program), options && options->entry ? options->entry : "", std::move(load_options));
  if (!loaded) return loaded.error();
  made->session = std::move(*loaded);
  *session = made.release();
  return {};
}

Result<void> output_sizes(run::Session& session, const atenon_tensor* inputs, size_t input_count, size_t index,
                          int64_t* sizes, int capacity, int* rank) {
  auto values = inputs_of(session, inputs, input_count);
  if (!values) return values.error();
  auto types = session.infer_outputs(*values);
  if (!types) return types.error();
  if (index >= types->size()) return error(Status::usage, 601, "there is no output " + std::to_string(index));
  if (!(*types)[index])
    return error(Status::unsupported, 609, "the size of output " + std::to_string(index) + " depends on data");
  const ir::TensorMeta* meta = std::get_if<ir::TensorMeta>(&*(*types)[index]);
  *rank = meta ? meta->rank() : 0;
  for (int i = 0; i < *rank && i < capacity; ++i) sizes[i] = *meta->sizes[i].constant();
  return {};
}

Result<void> run_once(atenon_session& opened, const atenon_tensor* inputs, size_t input_count, atenon_tensor* outputs,
                      size_t output_count) {
  run::Session& session = *opened.session;
  if (output_count != session.outputs().size())
    return error(Status::usage, 601, "the program has " + std::to_string(session.outputs().size()) + " outputs");
  Result<bool> again = run_again(opened, inputs, input_count, outputs, output_count);
  if (!again) return again.error();
  if (*again) return {};
  auto values = inputs_of(session, inputs, input_count);
  if (!values) return values.error();
  for (size_t i = 0; i < input_count; ++i)
    if (!has_data(inputs[i])) return without_data("input", i);
  std::vector<Tensor> into;
  for (size_t i = 0; i < output_count; ++i) {
    if (!has_valid_type(outputs[i]))
      return error(Status::usage, 603, "output " + std::to_string(i) + " has no valid type");
    if (!has_data(outputs[i])) return without_data("output", i);
    into.push_back(tensor_of(outputs[i]));
  }
  auto results = session.run(*values, {}, into);
  return results ? Result<void>() : results.error();
}

Result<void> copy_state(run::Session& to, const run::Session* from) {
  bool shares_one = !from;
  for (const auto& [name, state] : (from ? *from : to).changing_state()) {
    if (!to.has_state(name)) continue;
    if (Result<void> done = to.restore(name, from ? state : to.program().weight(name)->tensor); !done) return done;
    shares_one = true;
  }
  if (shares_one) return {};
  return error(Status::usage, 625, "the sessions have no buffer in common that their programs write");
}

}  // namespace

extern "C" {

const char* atenon_version(void) { return ATENON_VERSION; }

void atenon_set_threads(int threads) { set_threads(threads); }

atenon_status atenon_load_file(const char* path, const atenon_options* options, atenon_session** session,
                               char** message) {
  return answer(message, [&] { return load(program::read(path ? path : ""), options, session); });
}

atenon_status atenon_load_memory(const void* bytes, size_t size, const atenon_options* options,
                                 atenon_session** session, char** message) {
  return answer(message, [&] {
    auto storage = Storage::view(const_cast<void*>(bytes), size, nullptr, false);
    return load(program::parse(std::move(storage), "<memory>"), options, session);
  });
}

void atenon_free(atenon_session* session) { delete session; }

void atenon_free_message(char* message) { free(message); }

size_t atenon_input_count(const atenon_session* session) { return session->session->inputs().size(); }
size_t atenon_output_count(const atenon_session* session) { return session->session->outputs().size(); }

const char* atenon_input_name(const atenon_session* session, size_t index) {
  return index < atenon_input_count(session) ? session->session->inputs()[index].path.c_str() : nullptr;
}
const char* atenon_output_name(const atenon_session* session, size_t index) {
  return index < atenon_output_count(session) ? session->session->outputs()[index].path.c_str() : nullptr;
}

int64_t atenon_find_input(const atenon_session* session, const char* name) {
  std::optional<size_t> found = run::find_leaf(session->session->inputs(), name);
  return found ? static_cast<int64_t>(*found) : -1;
}
int64_t atenon_find_output(const atenon_session* session, const char* name) {
  std::optional<size_t> found = run::find_leaf(session->session->outputs(), name);
  return found ? static_cast<int64_t>(*found) : -1;
}

int atenon_input_type(const atenon_session* session, size_t index, atenon_dtype* dtype, int64_t* sizes, int capacity) {
  return index < atenon_input_count(session) ? type_of(session->session->inputs()[index], dtype, sizes, capacity) : -1;
}
int atenon_output_type(const atenon_session* session, size_t index, atenon_dtype* dtype, int64_t* sizes, int capacity) {
  return index < atenon_output_count(session) ? type_of(session->session->outputs()[index], dtype, sizes, capacity)
                                              : -1;
}

atenon_status atenon_output_sizes(atenon_session* session, const atenon_tensor* inputs, size_t input_count,
                                  size_t index, int64_t* sizes, int capacity, int* rank, char** message) {
  return answer(message,
                [&] { return output_sizes(*session->session, inputs, input_count, index, sizes, capacity, rank); });
}

void atenon_seed(atenon_session* session, uint64_t seed) { session->session->seed(seed); }

atenon_status atenon_copy_state(atenon_session* to, const atenon_session* from, char** message) {
  return answer(message, [&] { return copy_state(*to->session, from ? from->session.get() : nullptr); });
}

atenon_status atenon_run(atenon_session* session, const atenon_tensor* inputs, size_t input_count,
                         atenon_tensor* outputs, size_t output_count, char** message) {
  return answer(message, [&] { return run_once(*session, inputs, input_count, outputs, output_count); });
}

}  // extern "C"
