#include "pt2/aliases.h"

#include <algorithm>
#include <array>

namespace atenon::pt2 {
namespace {

// Views that keep the order of the elements, views that undo themselves, and views with an operator that writes through
// them.
constexpr std::array<std::string_view, 9> reshaping = {"aten::view",      "aten::reshape", "aten::flatten",
                                                       "aten::unflatten", "aten::ravel",   "aten::squeeze",
                                                       "aten::unsqueeze", "aten::view_as", "aten::reshape_as"};
constexpr std::array<std::string_view, 8> swapping = {"aten::t",  "aten::transpose", "aten::swapaxes", "aten::swapdims",
                                                      "aten::mT", "aten::mH",        "aten::matrix_H", "aten::adjoint"};
constexpr std::array<std::string_view, 3> scattering = {"aten::select", "aten::slice", "aten::diagonal"};

template <class Names>
bool is_one_of(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

ir::ArgumentList list_of(const std::vector<ir::SymInt>& sizes) { return {sizes.begin(), sizes.end()}; }

}  // namespace

Result<ir::Value*> Aliases::only(const std::string& target, std::vector<ir::Argument> arguments) const {
  Result<ir::Node*> node = append_(target, std::move(arguments));
  if (!node) return node.error();
  return (*node)->result();
}

Result<ir::Value*> Aliases::apply(const Step& step, ir::Value* viewed) const {
  opset::Call call = step.call;
  call.arguments[0] = viewed;
  Result<ir::Node*> node = append_call_(call);
  if (!node) return node.error();
  return (*node)->result(step.result);
}

// What `step` views, with `content` where the view is.
Result<ir::Value*> Aliases::put_back(const Step& step, ir::Value* viewed, ir::Value* content) const {
  const std::string& name = step.call.op->schema().name;
  const std::vector<ir::SymInt> sizes = viewed->meta().sizes;
  if (is_one_of(reshaping, name)) return only("aten::view", {content, list_of(sizes)});
  if (is_one_of(swapping, name)) return apply(step, content);
  if (is_one_of(scattering, name)) {
    std::vector<ir::Argument> arguments{viewed, content};
    arguments.insert(arguments.end(), step.call.arguments.begin() + 1, step.call.arguments.end());
    return only(name + "_scatter", std::move(arguments));
  }
  // Which elements they are, numbered row by row, and as a view sees them.
  const ir::ArgumentList flat{ir::Argument(-1)};
  Result<ir::Value*> numbers = only("aten::arange", {shape::product(sizes)});
  if (numbers) numbers = only("aten::view", {*numbers, list_of(sizes)});
  if (numbers) numbers = apply(step, *numbers);
  if (numbers) numbers = only("aten::reshape", {*numbers, flat});
  Result<ir::Value*> elements = only("aten::reshape", {content, flat}), rows = only("aten::reshape", {viewed, flat});
  if (!numbers) return numbers.error();
  if (!elements) return elements.error();
  if (!rows) return rows.error();
  Result<ir::Value*> put = only("aten::index_put", {*rows, ir::ArgumentList{ir::Argument(*numbers)}, *elements});
  if (!put) return put.error();
  return only("aten::view", {*put, list_of(sizes)});
}

Result<ir::Value*> Aliases::read(View& view) const {
  if (view.seen == view.memory->version) return view.value;
  ir::Value* value = view.memory->content;
  for (const Step& step : view.chain) {
    Result<ir::Value*> next = apply(step, value);
    if (!next) return next.error();
    value = *next;
  }
  view.value = value;
  view.seen = view.memory->version;
  return value;
}

Result<void> Aliases::write(View& view, ir::Value* value) const {
  Memory& memory = *view.memory;
  if (!memory.doubtful.empty())
    return error(Status::unsupported, 825,
                 "an update in place of memory that " + memory.doubtful + " may or may not have copied")
        .note("fix: export.run_decompositions() before torch.export.save, which removes updates in place");
  const ScalarType dtype = view.value->meta().dtype;
  if (value->meta().dtype != dtype) {
    Result<ir::Node*> converted = append_("aten::to.dtype", {value, dtype});
    if (!converted) return converted.error();
    value = (*converted)->result();
  }
  std::vector<ir::Value*> viewed{memory.content};  // what each step views
  for (size_t i = 0; i + 1 < view.chain.size(); ++i) {
    Result<ir::Value*> next = apply(view.chain[i], viewed.back());
    if (!next) return next.error();
    viewed.push_back(*next);
  }
  ir::Value* content = value;
  for (size_t i = view.chain.size(); i-- > 0;) {
    Result<ir::Value*> next = put_back(view.chain[i], viewed[i], content);
    if (!next) return next.error();
    content = *next;
  }
  memory.content = content;
  ++memory.version;
  view.value = value;
  view.seen = memory.version;
  return {};
}

}  // namespace atenon::pt2
