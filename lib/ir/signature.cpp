// Pytree paths, in the order in which torch.utils._pytree flattens.
#include "ir/signature.h"

namespace atenon::ir {
namespace {

// Trees are as deep as users nest containers; readers cap the depth (text/limits.h), so recursion is safe.
void append_paths(const TreeSpec& tree, const std::string& path, std::vector<std::string>& out) {
  if (tree.is_leaf()) {
    out.push_back(path.empty() ? "0" : path);
    return;
  }
  for (size_t i = 0; i < tree.children.size(); ++i) {
    const std::string key = i < tree.keys.size() ? tree.keys[i] : std::to_string(i);
    append_paths(tree.children[i], path.empty() ? key : path + "." + key, out);
  }
}

}  // namespace

size_t TreeSpec::leaf_count() const {
  if (is_leaf()) return 1;
  size_t count = 0;
  for (const TreeSpec& child : children) count += child.leaf_count();
  return count;
}

std::vector<std::string> TreeSpec::leaf_paths(const std::string& prefix) const {
  std::vector<std::string> out;
  append_paths(*this, prefix, out);
  return out;
}

const InputSpec* GraphSignature::input(const std::string& value_name) const {
  for (const InputSpec& spec : inputs) {
    if (!spec.value.empty() && spec.value == value_name) return &spec;
  }
  return nullptr;
}

}  // namespace atenon::ir
