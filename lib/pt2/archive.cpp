#include "pt2/archive.h"

#include <algorithm>
#include <array>

#include "arrays/arrays.h"
#include "pt2/pt2.h"
#include "text/limits.h"

namespace atenon::pt2 {
namespace {

constexpr std::array<std::pair<int, ScalarType>, 12> dtypes = {{{1, ScalarType::u8},
                                                                {2, ScalarType::i8},
                                                                {3, ScalarType::i16},
                                                                {4, ScalarType::i32},
                                                                {5, ScalarType::i64},
                                                                {6, ScalarType::f16},
                                                                {7, ScalarType::f32},
                                                                {8, ScalarType::f64},
                                                                {10, ScalarType::c64},
                                                                {11, ScalarType::c128},
                                                                {12, ScalarType::boolean},
                                                                {13, ScalarType::bf16}}};
constexpr int64_t strided = 7;  // of torch.layout

constexpr std::string_view old_program = "serialized_exported_program.json";

Diagnostic unsupported(const std::string& file_name, const std::string& what) {
  return error(Status::unsupported, 823, what).at({.file = file_name});
}

std::vector<int64_t> integers(const Item& list) {
  std::vector<int64_t> values;
  for (const Item& item : list.items()) values.push_back(item.at("as_int").integer());
  return values;
}

class Opener {
 public:
  Opener(arrays::ZipArchive zip, const std::string& file_name) : zip_(std::move(zip)), file_name_(file_name) {}

  Result<Archive> open() {
    Archive archive{.file_name = file_name_};
    std::vector<std::string> programs;
    for (const std::string& name : zip_.names()) {
      if (name == old_program) return open_old();
      const size_t folder = name.find("/models/");
      if (folder != std::string::npos && folder == name.find('/') && name.ends_with(".json")) programs.push_back(name);
    }
    if (programs.empty())
      return error(Status::bad_input, 821, "this zip archive holds no program of torch.export")
          .at({.file = file_name_});
    if (programs.size() > 1)
      return error(Status::unsupported, 821, "this archive holds " + std::to_string(programs.size()) + " models")
          .at({.file = file_name_})
          .note("fix: save each with torch.export.save, capture each, and join them with atenon pack");
    const std::string& path = programs.front();
    root_ = path.substr(0, path.find('/') + 1);
    const size_t start = root_.size() + std::string_view("models/").size();
    const std::string model = path.substr(start, path.size() - start - std::string_view(".json").size());
    if (Result<void> order = check_byte_order(); !order) return order.error();
    Result<Contents> program = zip_.member(path);
    if (!program) return program.error();
    archive.program = *program;
    if (Result<void> read = read_tensors("weights", model, archive.weights); !read) return read.error();
    if (Result<void> read = read_tensors("constants", model, archive.constants); !read) return read.error();
    if (Result<void> read = read_extra_files(root_ + "extra/", archive); !read) return read.error();
    return archive;
  }

 private:
  Result<Archive> open_old() {
    Archive archive{.file_name = file_name_};
    Result<Contents> program = zip_.member(std::string(old_program));
    if (!program) return program.error();
    archive.program = *program;
    if (Result<void> read = read_saved("serialized_state_dict.pt", archive.weights); !read) return read.error();
    if (Result<void> read = read_saved("serialized_constants.pt", archive.constants); !read) return read.error();
    if (Result<void> read = read_extra_files("extra_files/", archive); !read) return read.error();
    return archive;
  }

  // What the user saved beside the model.
  Result<void> read_extra_files(const std::string& folder, Archive& archive) {
    for (const std::string& member : zip_.names()) {
      if (!member.starts_with(folder) || member.size() == folder.size()) continue;
      Result<Contents> bytes = zip_.member(member);
      if (!bytes) return bytes.error();
      archive.extra_files.push_back({member.substr(folder.size()), arrays::to_storage(*bytes, ScalarType::u8)});
    }
    return {};
  }

  Result<void> check_byte_order() {
    if (!zip_.has(root_ + "byteorder")) return {};
    Result<Contents> order = zip_.member(root_ + "byteorder");
    if (!order) return order.error();
    if (order->text() != "little") return unsupported(file_name_, "the file was written on a big-endian machine");
    return {};
  }

  // A dict of tensors by torch.save; an empty one may be no bytes at all.
  Result<void> read_saved(const std::string& member, std::map<std::string, Tensor>& tensors) {
    Result<Contents> bytes = zip_.member(member);
    if (!bytes) return bytes.error();
    if (bytes->size == 0) return {};
    Result<std::vector<arrays::Array>> read = arrays::parse_torch(*bytes, file_name_);
    if (!read) return read.error();
    for (arrays::Array& array : *read) tensors.emplace(array.name, std::move(array.tensor));
    return {};
  }

  Result<void> read_tensors(const std::string& kind, const std::string& model, std::map<std::string, Tensor>& tensors) {
    const std::string folder = root_ + "data/" + kind + "/", saved = folder + model + ".pt";
    if (zip_.has(saved)) return read_saved(saved, tensors);
    const std::string table_name = folder + model + "_" + kind + "_config.json";
    Result<Contents> text = zip_.member(table_name);
    if (!text) return text.error();
    Result<Document> table = Document::parse(text->text(), file_name_, table_name);
    if (!table) return table.error();
    std::map<std::string, std::shared_ptr<Storage>> storages;
    for (const auto& [name, entry] : table->root().at("config").members()) {
      const std::string file = folder + entry.at("path_name").text();
      const bool is_pickled = entry.at("use_pickle").truth();
      if (Result<void> sound = table->check(); !sound) return sound;
      if (is_pickled) {
        if (entry.find("tensor_meta").is_null())
          return unsupported(file_name_, "'" + name + "' is an object of a class of its own, not a tensor");
        if (Result<void> read = read_pickled(file, name, tensors); !read) return read;
        continue;
      }
      Result<Tensor> tensor = read_raw(entry.at("tensor_meta"), file, name, storages);
      if (Result<void> sound = table->check(); !sound) return sound;
      if (!tensor) return tensor.error();
      tensors.emplace(name, std::move(*tensor));
    }
    return table->check();
  }

  // One tensor that torch.save wrote: what PyTorch does with subclasses of Tensor.
  Result<void> read_pickled(const std::string& file, const std::string& name, std::map<std::string, Tensor>& tensors) {
    Result<Contents> bytes = zip_.member(file);
    if (!bytes) return bytes.error();
    Result<std::vector<arrays::Array>> read = arrays::parse_torch(*bytes, file_name_);
    if (!read) return read.error();
    if (read->size() != 1) return unsupported(file_name_, "'" + name + "' is a tensor of a class of its own");
    tensors.emplace(name, std::move(read->front().tensor));
    return {};
  }

  Result<Tensor> read_raw(const Item& meta, const std::string& file, const std::string& name,
                          std::map<std::string, std::shared_ptr<Storage>>& storages) {
    const std::optional<ScalarType> dtype = dtype_of(meta.at("dtype").integer());
    if (!dtype || meta.at("layout").integer() != strided)
      return unsupported(file_name_, "'" + name + "' is a tensor of a type or layout that is not supported");
    Tensor tensor{.dtype = *dtype,
                  .sizes = integers(meta.at("sizes")),
                  .strides = integers(meta.at("strides")),
                  .offset = meta.at("storage_offset").at("as_int").integer()};
    std::shared_ptr<Storage>& storage = storages[file];
    if (!storage) {
      Result<Contents> bytes = zip_.member(file);
      if (!bytes) return bytes.error();
      storage = arrays::to_storage(*bytes, *dtype);
    }
    tensor.storage = storage;
    if (const std::optional<std::string> problem = text::weight_problem({.name = name, .tensor = tensor}))
      return damaged(file_name_, "the tensor '" + name + "': " + *problem);
    return tensor;
  }

  arrays::ZipArchive zip_;
  std::string file_name_;
  std::string root_;  // the folder that everything lies in, with its slash
};

}  // namespace

std::optional<ScalarType> dtype_of(int64_t number) {
  for (const auto& [known, dtype] : dtypes)
    if (known == number) return dtype;
  return std::nullopt;
}

int number_of(ScalarType dtype) {
  return std::find_if(dtypes.begin(), dtypes.end(), [&](const auto& pair) { return pair.second == dtype; })->first;
}

Result<Archive> open(const Contents& contents, const std::string& file_name) {
  Result<arrays::ZipArchive> zip = arrays::ZipArchive::open(contents, file_name);
  if (!zip) return zip.error();
  return Opener(std::move(*zip), file_name).open();
}

bool is_archive(const Contents& contents) { return contents.text().starts_with("PK\x03\x04"); }

}  // namespace atenon::pt2
