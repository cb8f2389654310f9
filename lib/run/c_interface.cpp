// The C functions of atenon.h over Session. Nothing throws across them.
#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "program/program_file.h"
#include "run/atenon.h"
#include "run/engine.h"
#include "run/leaves.h"
#include "support/parallel.h"

struct atenon_session {
  std::unique_ptr<atenon::run::Session> session;
  std::unique_ptr<atenon::opset::Opset> opset;
};

namespace {

using namespace atenon;

atenon_status fail(Diagnostic diagnostic, char** message) {
  if (message) *message = strdup(diagnostic.render("atenon").c_str());
  return static_cast<atenon_status>(diagnostic.status);
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

Result<std::vector<std::optional<run::Datum>>> inputs_of(const run::Session& session, const atenon_tensor* inputs,
                                                         size_t count) {
  std::vector<std::optional<run::Datum>> values;
  for (size_t i = 0; i < count; ++i) {
    if (!has_valid_type(inputs[i]))
      return error(Status::usage, 603, "input " + std::to_string(i) + " has no valid type");
    Tensor tensor = tensor_of(inputs[i]);
    const bool is_number =
        i < session.inputs().size() && !std::holds_alternative<ir::TensorMeta>(session.inputs()[i].type);
    if (is_number && tensor.numel() == 1)
      values.push_back(run::number_of(tensor, std::get<ir::ScalarKind>(session.inputs()[i].type)));
    else
      values.push_back(std::move(tensor));
  }
  values.resize(std::max(values.size(), session.inputs().size()));
  return values;
}

// The usual call: tensors of sizes that were seen before. No where it is anything else.
Result<bool> run_again(run::Session& session, const atenon_tensor* inputs, size_t input_count,
                       const atenon_tensor* outputs, size_t output_count) {
  constexpr size_t most = 64;
  run::Rows rows[most];
  if (input_count + output_count > most) return false;
  for (size_t i = 0; i < input_count + output_count; ++i) {
    const atenon_tensor& tensor = i < input_count ? inputs[i] : outputs[i - input_count];
    if (!has_valid_type(tensor)) return false;
    rows[i] = {static_cast<ScalarType>(tensor.dtype), {tensor.sizes, static_cast<size_t>(tensor.rank)}, tensor.data};
  }
  return session.run_again({rows, input_count}, {rows + input_count, output_count});
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

atenon_status load(Result<ir::ExportedProgram> program, const atenon_options* options, atenon_session** session,
                   char** message) {
  if (!program) return fail(program.error(), message);
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
  if (!loaded) return fail(loaded.error(), message);
  made->session = std::move(*loaded);
  *session = made.release();
  return ATENON_OK;
}

}  // namespace

extern "C" {

const char* atenon_version(void) { return ATENON_VERSION; }

void atenon_set_threads(int threads) { set_threads(threads); }

atenon_status atenon_load_file(const char* path, const atenon_options* options, atenon_session** session,
                               char** message) {
  return load(program::read(path), options, session, message);
}

atenon_status atenon_load_memory(const void* bytes, size_t size, const atenon_options* options,
                                 atenon_session** session, char** message) {
  auto storage = Storage::view(const_cast<void*>(bytes), size, nullptr, false);
  return load(program::parse(std::move(storage), "<memory>"), options, session, message);
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
  auto values = inputs_of(*session->session, inputs, input_count);
  if (!values) return fail(values.error(), message);
  auto types = session->session->infer_outputs(*values);
  if (!types) return fail(types.error(), message);
  if (index >= types->size())
    return fail(error(Status::usage, 601, "there is no output " + std::to_string(index)), message);
  if (!(*types)[index])
    return fail(error(Status::unsupported, 609, "the size of output " + std::to_string(index) + " depends on data"),
                message);
  const ir::TensorMeta* meta = std::get_if<ir::TensorMeta>(&*(*types)[index]);
  *rank = meta ? meta->rank() : 0;
  for (int i = 0; i < *rank && i < capacity; ++i) sizes[i] = *meta->sizes[i].constant();
  return ATENON_OK;
}

atenon_status atenon_run(atenon_session* session, const atenon_tensor* inputs, size_t input_count,
                         atenon_tensor* outputs, size_t output_count, char** message) {
  run::Session& engine = *session->session;
  if (output_count != engine.outputs().size())
    return fail(error(Status::usage, 601, "the program has " + std::to_string(engine.outputs().size()) + " outputs"),
                message);
  Result<bool> again = run_again(engine, inputs, input_count, outputs, output_count);
  if (!again) return fail(again.error(), message);
  if (*again) return ATENON_OK;
  auto values = inputs_of(engine, inputs, input_count);
  if (!values) return fail(values.error(), message);
  std::vector<Tensor> into;
  for (size_t i = 0; i < output_count; ++i) {
    if (!has_valid_type(outputs[i]))
      return fail(error(Status::usage, 603, "output " + std::to_string(i) + " has no valid type"), message);
    into.push_back(tensor_of(outputs[i]));
  }
  auto results = engine.run(*values, {}, into);
  if (!results) return fail(results.error(), message);
  for (size_t i = 0; i < output_count; ++i)  // numbers come back as tensors of rank 0
    if (!std::holds_alternative<Tensor>((*results)[i])) run::store_number((*results)[i], into[i]);
  return ATENON_OK;
}

}  // extern "C"
