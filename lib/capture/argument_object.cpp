#include "capture/argument_object.h"

namespace atenon::capture {

Ref new_text(const std::string& text) {
  return Ref(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

Ref object_of(Session& session, const Argument& argument, const ArgumentObjects& objects) {
  if (argument.is<ir::None>()) return Ref(new_none());
  if (argument.is<SymInt>()) return session.wrap(argument.get<SymInt>());
  if (argument.is<SymFloat>()) return session.wrap(argument.get<SymFloat>());
  if (argument.is<SymBool>()) return session.wrap(argument.get<SymBool>());
  if (argument.is<std::complex<double>>()) {
    const std::complex<double> number = argument.get<std::complex<double>>();
    return Ref(PyComplex_FromDoubles(number.real(), number.imag()));
  }
  if (argument.is<std::string>()) return new_text(argument.get<std::string>());
  if (argument.is<ScalarType>()) return session.dtypes.at(argument.get<ScalarType>());
  if (argument.is<ir::Word>()) return new_text(argument.get<ir::Word>().text);
  if (argument.is<ir::SubgraphRef>()) return objects.subgraph(argument.get<ir::SubgraphRef>().name);
  if (const ir::Value* value = argument.value()) return objects.value(value);
  return list_of(argument.get<ArgumentList>(), [&](const Argument& item) { return object_of(session, item, objects); });
}

Ref object_of(Session& session, const ir::Type& type) {
  if (const auto* kind = std::get_if<ir::ScalarKind>(&type)) {
    static constexpr const char* names[] = {"int", "float", "bool"};
    return Ref(Py_BuildValue("(s)", names[static_cast<size_t>(*kind)]));
  }
  const auto& meta = std::get<ir::TensorMeta>(type);
  const Ref sizes = session.wrap_sizes(meta.sizes);
  const Ref strides = meta.strides ? session.wrap_sizes(*meta.strides) : Ref(new_none());
  if (!sizes || !strides) return {};
  return Ref(Py_BuildValue("(sOOO)", "tensor", session.dtypes.at(meta.dtype).get(), sizes.get(), strides.get()));
}

Ref object_of(const ir::TreeSpec& tree) {
  static constexpr const char* kinds[] = {"leaf", "none", "tuple", "list", "dict", "named_tuple", "custom"};
  const Ref keys = list_of(tree.keys, new_text);
  const Ref children = list_of(tree.children, [](const ir::TreeSpec& child) { return object_of(child); });
  if (!keys || !children) return {};
  return Ref(
      Py_BuildValue("(ssOO)", kinds[static_cast<size_t>(tree.kind)], tree.type.c_str(), keys.get(), children.get()));
}

}  // namespace atenon::capture
