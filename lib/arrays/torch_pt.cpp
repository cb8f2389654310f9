// State dicts as torch.save writes them (torch/serialization.py): a pickle that refers to storages by key. Since
// PyTorch 1.6 a zip archive with data.pkl and one member for each storage; before, one pickle after the other and then
// the storages.
//
// Tensors are found at any depth: dicts, lists, and modules that were pickled whole. Everything else in the file is
// left alone.
#include <algorithm>
#include <map>

#include "arrays/pickle.h"
#include "arrays/zip_archive.h"

namespace atenon::arrays {
namespace {

using Kind = PickleValue::Kind;

constexpr int deepest = 100;
constexpr size_t most_visits = 1'000'000;  // a small pickle may refer to one list from many places

std::optional<ScalarType> storage_type(const std::string& name) {
  static constexpr std::pair<const char*, ScalarType> types[] = {
      {"Half", ScalarType::f16},     {"BFloat16", ScalarType::bf16},    {"Float", ScalarType::f32},
      {"Double", ScalarType::f64},   {"Byte", ScalarType::u8},          {"Char", ScalarType::i8},
      {"Short", ScalarType::i16},    {"Int", ScalarType::i32},          {"Long", ScalarType::i64},
      {"Bool", ScalarType::boolean}, {"ComplexFloat", ScalarType::c64}, {"ComplexDouble", ScalarType::c128},
      {"Untyped", ScalarType::u8}};
  for (const auto& [prefix, type] : types) {
    if (name == "torch." + std::string(prefix) + "Storage" ||
        name == "torch.storage." + std::string(prefix) + "Storage")
      return type;
  }
  return std::nullopt;
}

// Where a storage's bytes are: key, element type, number of elements.
struct StorageReference {
  std::string key;
  ScalarType dtype;
  int64_t numel;
};

std::optional<StorageReference> storage_reference(const PickleValue& value) {
  if (value.kind != Kind::persistent || value.items.size() < 5 || value.items[0]->text != "storage")
    return std::nullopt;
  const std::optional<ScalarType> dtype = storage_type(value.items[1]->text);
  if (!dtype || value.items[4]->integer < 0) return std::nullopt;
  return StorageReference{value.items[2]->text, *dtype, value.items[4]->integer};
}

std::optional<std::vector<int64_t>> integers(const PickleValue& value) {
  if (value.is_call_of("torch.Size") && value.items[1]->items.size() == 1) return integers(*value.items[1]->items[0]);
  if (value.kind != Kind::list) return std::nullopt;
  std::vector<int64_t> out;
  for (const PickleValue* item : value.items) {
    if (item->kind != Kind::integer) return std::nullopt;
    out.push_back(item->integer);
  }
  return out;
}

class StateReader {
 public:
  StateReader(std::string file_name, std::map<std::string, Contents> storages)
      : file_name_(std::move(file_name)), bytes_(std::move(storages)) {}

  Result<std::vector<Array>> read(const PickleValue& root) {
    visit(root, "", 0);
    if (failed_) return std::move(*failed_);
    return std::move(arrays_);
  }

 private:
  void fail(Diagnostic diagnostic) {
    if (!failed_) failed_ = std::make_unique<Diagnostic>(std::move(diagnostic));
  }

  void visit(const PickleValue& value, const std::string& name, int depth) {
    if (failed_) return;
    if (depth > deepest || ++visits_ > most_visits)
      return fail(damaged(file_name_, "the pickle refers to itself, or is nested too deeply"));
    const auto child = [&](const std::string& key) { return name.empty() ? key : name + "." + key; };
    const auto visit_entries = [&](const PickleValue& of) {
      for (const auto& [key, item] : of.entries) {
        if (key->kind == Kind::text || key->kind == Kind::integer) {
          visit(*item, child(key->kind == Kind::text ? key->text : std::to_string(key->integer)), depth + 1);
        }
      }
    };
    if (value.kind == Kind::dict) return visit_entries(value);
    if (value.kind == Kind::list) {
      for (size_t i = 0; i < value.items.size(); ++i) visit(*value.items[i], child(std::to_string(i)), depth + 1);
    }
    if (value.kind != Kind::call || value.items[1]->kind != Kind::list) return;
    const std::string& callee = value.items[0]->text;
    const std::vector<PickleValue*>& arguments = value.items[1]->items;
    if (callee == "torch._utils._rebuild_tensor_v2" || callee == "torch._utils._rebuild_tensor" ||
        callee == "torch._utils._rebuild_tensor_v3") {
      return add_tensor(arguments, name);
    }
    if (callee.starts_with("torch._utils._rebuild_parameter") && !arguments.empty())
      return visit(*arguments[0], name, depth + 1);
    if (callee == "torch._tensor._rebuild_from_type_v2" && arguments.size() >= 3) {
      PickleValue inner{.kind = Kind::call, .items = {arguments[0], arguments[2]}};
      return visit(inner, name, depth + 1);
    }
    if (callee.starts_with("torch._utils._rebuild_")) {
      return fail(
          error(Status::bad_input, 813, "'" + name + "' is a tensor of a kind that is not supported (" + callee + ")")
              .at({.file = file_name_}));
    }
    if (callee == "collections.OrderedDict") {
      visit_entries(value);
      if (arguments.size() == 1) {
        for (const PickleValue* pair : arguments[0]->items) {
          if (pair->items.size() == 2) visit(*pair->items[1], child(pair->items[0]->text), depth + 1);
        }
      }
      return;
    }
    visit_module(value, name, depth);
  }

  // A module that was pickled whole keeps its state in three dicts.
  void visit_module(const PickleValue& value, const std::string& name, int depth) {
    if (value.state == nullptr) return;
    for (const char* part : {"_parameters", "_buffers", "_modules"}) {
      if (const PickleValue* dict = value.state->at(part)) visit(*dict, name, depth + 1);
    }
  }

  // (storage, offset, size, stride, ...); version 3 has the type as the seventh.
  void add_tensor(const std::vector<PickleValue*>& arguments, const std::string& name) {
    const auto bad = [&](const std::string& what) { fail(damaged(file_name_, "tensor '" + name + "' " + what)); };
    if (arguments.size() < 4) return bad("is not described completely");
    std::optional<StorageReference> reference = storage_reference(*arguments[0]);
    const std::optional<std::vector<int64_t>> sizes = integers(*arguments[2]), strides = integers(*arguments[3]);
    if (!reference) return bad("refers to a storage of a kind that is not known");
    if (!sizes || !strides || sizes->size() != strides->size()) return bad("has no readable shape");
    if (arguments.size() > 6 && arguments[6]->kind == Kind::name) {
      if (const std::optional<ScalarType> dtype = scalar_type_named(arguments[6]->text)) reference->dtype = *dtype;
    }
    const std::shared_ptr<Storage> storage = storage_of(*reference);
    if (storage == nullptr)
      return bad("refers to storage '" + reference->key + "', which is not in the file or is cut off");
    Tensor tensor{.dtype = reference->dtype,
                  .sizes = *sizes,
                  .strides = *strides,
                  .offset = arguments[1]->integer,
                  .storage = storage};
    if (!lies_inside(tensor)) return bad("lies outside of its storage");
    arrays_.push_back({name, std::move(tensor)});
  }

  static bool lies_inside(const Tensor& tensor) {
    const std::optional<int64_t> numel = checked_numel(tensor.sizes);
    if (!numel || tensor.offset < 0) return false;
    int64_t last = tensor.offset;
    for (size_t axis = 0; axis < tensor.sizes.size(); ++axis) {
      int64_t reach;
      if (tensor.strides[axis] < 0 ||
          __builtin_mul_overflow(std::max<int64_t>(tensor.sizes[axis] - 1, 0), tensor.strides[axis], &reach) ||
          __builtin_add_overflow(last, reach, &last)) {
        return false;
      }
    }
    const auto elements = static_cast<int64_t>(tensor.storage->size() / size_of(tensor.dtype));
    return *numel == 0 ? tensor.offset <= elements : last < elements;
  }

  // One Storage for each key: tensors that were tied stay tied.
  std::shared_ptr<Storage> storage_of(const StorageReference& reference) {
    if (const auto known = storages_.find(reference.key); known != storages_.end()) return known->second;
    const auto bytes = bytes_.find(reference.key);
    if (bytes == bytes_.end()) return nullptr;
    return storages_[reference.key] = to_storage(bytes->second, reference.dtype);
  }

  std::string file_name_;
  std::map<std::string, Contents> bytes_;
  std::map<std::string, std::shared_ptr<Storage>> storages_;
  std::vector<Array> arrays_;
  size_t visits_ = 0;
  std::unique_ptr<Diagnostic> failed_;
};

Result<std::vector<Array>> parse_zip(const Contents& contents, const std::string& file_name) {
  Result<ZipArchive> archive = ZipArchive::open(contents, file_name);
  if (!archive) return archive.error();
  const std::vector<std::string> names = archive->names();
  const auto pickle_name =
      std::find_if(names.begin(), names.end(), [](const std::string& name) { return name.ends_with("data.pkl"); });
  if (pickle_name == names.end())
    return damaged(file_name, "this zip archive has no data.pkl: torch.save did not write it");
  const std::string folder = pickle_name->substr(0, pickle_name->size() - 8);
  if (archive->has(folder + "byteorder")) {
    Result<Contents> order = archive->member(folder + "byteorder");
    if (!order) return order.error();
    if (order->text() != "little")
      return error(Status::bad_input, 813, "the file was written on a big-endian machine").at({.file = file_name});
  }
  Result<Contents> bytes = archive->member(*pickle_name);
  if (!bytes) return bytes.error();
  Result<Pickle> pickle = Pickle::read(bytes->text(), file_name);
  if (!pickle) return pickle.error();
  std::map<std::string, Contents> storages;
  for (const PickleValue& value : pickle->values()) {
    const std::optional<StorageReference> reference = storage_reference(value);
    if (!reference || storages.contains(reference->key)) continue;
    Result<Contents> member = archive->member(folder + "data/" + reference->key);
    if (!member) return member.error();
    storages.emplace(reference->key, *member);
  }
  return StateReader(file_name, std::move(storages)).read(pickle->root());
}

Result<std::vector<Array>> parse_legacy(const Contents& contents, const std::string& file_name) {
  // Magic number, protocol, system, the object, the storages' keys in order.
  std::vector<Pickle> pickles;
  size_t next = 0;
  for (int i = 0; i < 5; ++i) {
    Result<Pickle> pickle = Pickle::read(contents.text().substr(next), file_name);
    if (!pickle) return pickle.error();
    next += pickle->size();
    pickles.push_back(std::move(*pickle));
  }
  std::map<std::string, ScalarType> types;
  for (const PickleValue& value : pickles[3].values()) {
    if (const std::optional<StorageReference> reference = storage_reference(value))
      types.emplace(reference->key, reference->dtype);
  }
  std::map<std::string, Contents> storages;
  for (const PickleValue* key : pickles[4].root().items) {
    const auto type = types.find(key->text);
    uint64_t numel = 0;
    if (type == types.end() || contents.size - next < sizeof numel)
      return damaged(file_name, "the storages are cut off");
    for (size_t i = sizeof numel; i-- > 0;) numel = numel << 8 | static_cast<uint8_t>(contents.bytes[next + i]);
    next += sizeof numel;
    if (numel > (contents.size - next) / size_of(type->second)) return damaged(file_name, "the storages are cut off");
    storages.emplace(key->text, part(contents, next, numel * size_of(type->second)));
    next += numel * size_of(type->second);
  }
  return StateReader(file_name, std::move(storages)).read(pickles[3].root());
}

}  // namespace

Result<std::vector<Array>> parse_torch(const Contents& contents, const std::string& file_name) {
  return contents.text().starts_with("PK") ? parse_zip(contents, file_name) : parse_legacy(contents, file_name);
}

}  // namespace atenon::arrays
