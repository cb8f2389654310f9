// The table of operators: texts, what the scan found in them, and the operators that were asked for.
#include "opset/opset.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <unordered_map>

#include "opset/example.h"
#include "opset/library.h"
#include "support/streams.h"

namespace atenon::opset {
namespace {

Result<std::string> read_file(const std::filesystem::path& path) {
  const Result<Contents> contents = read_contents(path.string());
  if (!contents) return error(Status::usage, 102, "cannot read " + path.string());
  return std::string(contents->text());
}

// "aten.add.Tensor" -> "aten::add.Tensor"; drops ".default".
std::string canonical(const std::string& target) {
  std::string result = target;
  if (result.ends_with(".default")) result.resize(result.size() - 8);
  if (result.find("::") == std::string::npos) {
    const size_t dot = result.find('.');
    if (dot != std::string::npos) result.replace(dot, 1, "::");
  }
  return result;
}

std::string_view name_of_target(std::string_view target) { return target.substr(0, target.find('.')); }

}  // namespace

// --- Operator

bool Operator::has_tag(const std::string& tag) const {
  const std::vector<std::string>& tags = block_->get().tags;
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

std::string Operator::meaning_kind() const {
  const Step* step = replacement_ ? replacement_->get().meaning() : nullptr;
  if (!step) step = block_->get().meaning();
  return step ? name_of(step->kind) : "";
}

bool Operator::is_view() const {
  return derivation_ == Derivation::none && !schema_.returns.empty() && !schema_.returns[0].type.alias.empty() &&
         !schema_.returns[0].type.mutated;
}

bool Operator::is_declared() const { return !replacement_ && block_->get().is_declaration(); }

const std::string* Operator::brought_by() const { return block_->is_built_in ? nullptr : &block_->place.file->text; }

SourceSpan Operator::place() const {
  const auto [begin, end] = block_->place.headers[header_];
  return block_->place.file->span(begin, end - begin);
}

// --- Opset

struct Opset::State {
  struct Entry {
    Operator op;
    bool ready = false;                 // schema and block are parsed
    std::optional<Diagnostic> failure;  // why they could not be
  };

  std::string folder;
  std::deque<SourceFile> files;
  Library library;
  std::deque<LazyBlock> blocks;
  std::deque<Entry> entries;
  std::unordered_map<std::string, Entry*> by_target;                  // derived operators join when first asked for
  std::unordered_map<std::string, std::vector<std::string>> by_name;  // targets, in file order
  std::unordered_map<std::string, std::vector<const Operator*>> overloads;
  std::recursive_mutex mutex;
  bool is_built_in = false;  // what is being added

  Result<void> add(const std::string& text, const std::string& file_name);
  Result<void> add_block(BlockPlace place);
  Result<void> add_known(Entry& entry, const LazyBlock& block, size_t header);
  const Operator* ready(Entry& entry);
  Entry* entry(const std::string& target);
  Entry* derive(const std::string& target);
};

Opset::Opset() : state_(std::make_unique<State>()) {}
Opset::~Opset() = default;

Result<std::unique_ptr<Opset>> Opset::load(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code problem;
  std::vector<fs::path> paths;
  for (fs::recursive_directory_iterator entry(folder, problem), end; !problem && entry != end; entry.increment(problem))
    if (entry->path().extension() == ".ops") paths.push_back(entry->path());
  if (problem) return error(Status::usage, 102, "cannot read the operator sets in " + folder);
  std::sort(paths.begin(), paths.end());
  std::unique_ptr<Opset> opset(new Opset());
  opset->state_->folder = folder;
  opset->state_->is_built_in = true;
  for (const fs::path& path : paths) {
    Result<std::string> text = read_file(path);
    if (!text) return text.error();
    const std::string name = "opsets/" + fs::relative(path, folder, problem).generic_string();
    Result<void> added = opset->state_->add(*text, name);
    if (!added) return added.error();
  }
  opset->state_->is_built_in = false;
  return opset;
}

Result<void> Opset::add(const std::string& text, const std::string& file_name) {
  const std::lock_guard lock(state_->mutex);
  if (std::ranges::any_of(state_->files, [&](const SourceFile& known) { return known.text == text; })) return {};
  state_->overloads.clear();
  return state_->add(text, file_name);
}

Result<void> Opset::State::add(const std::string& text, const std::string& file_name) {
  const SourceFile& file = files.emplace_back(SourceFile{file_name, text});
  Result<Scan> found = scan(file);
  if (!found) return found.error();
  for (const Scan::Definition& d : found->functions) {
    const auto [place, inserted] = library.functions.try_emplace(d.name);
    if (!inserted)
      return error(Status::bad_input, 102, "a function '" + d.name + "' is there already")
          .at(file.span(d.begin + 4, d.name.size()));
    place->second.name = d.name;
    place->second.file = &file;
    place->second.begin = d.begin;
    place->second.end = d.end;
  }
  for (const Scan::Definition& d : found->monoids) {
    MonoidDefinition& monoid = library.monoids[d.name];
    if (monoid.file)
      return error(Status::bad_input, 102, "a monoid '" + d.name + "' is there already")
          .at(file.span(d.begin + 7, d.name.size()));
    monoid.file = &file;
    monoid.name = d.name;
    monoid.begin = d.begin;
    monoid.end = d.end;
  }
  for (BlockPlace& place : found->blocks) {
    Result<void> added = add_block(std::move(place));
    if (!added) return added;
  }
  return {};
}

Result<void> Opset::State::add_block(BlockPlace place) {
  LazyBlock& block = blocks.emplace_back();
  block.place = std::move(place);
  block.library = &library;
  block.is_built_in = is_built_in;
  for (size_t i = 0; i < block.place.headers.size(); ++i) {
    std::string target(target_of(block.place, i));
    const auto [known, inserted] = by_target.try_emplace(target, nullptr);
    if (inserted) {
      Entry& entry = entries.emplace_back();
      entry.op.block_ = &block;
      entry.op.header_ = i;
      known->second = &entry;
      by_name[std::string(name_of_target(target))].push_back(target);
    } else if (Result<void> joined = add_known(*known->second, block, i); !joined) {
      return joined;
    }
    block.targets.push_back(std::move(target));
  }
  return {};
}

// A block for an operator that is there: its declaration again, its definition, or a new meaning.
Result<void> Opset::State::add_known(Entry& entry, const LazyBlock& block, size_t header) {
  const LazyBlock& known = *entry.op.block_;
  if (block.text() == known.text()) return {};
  if (Result<void> checked = block.check(); !checked) return checked;
  const Block& parsed = block.get();
  const std::string target(target_of(block.place, header));
  const auto clash = [&](size_t offset, const std::string& why) {
    return error(Status::bad_input, 102, target + " is there already: " + why)
        .at(block.place.file->span(offset, 4))
        .note(target + " is defined here", known.place.file->span(known.place.headers[0].first));
  };
  if (parsed.is_declaration() || (known.check() && known.get().is_declaration())) {
    Result<Schema> now = parse_header(block.place, header), before = parse_header(known.place, entry.op.header_);
    if (!now || !before || now->to_string() != before->to_string())
      return clash(block.place.headers[header].first, "its schema cannot change");
    if (parsed.is_declaration()) return {};
    entry.op.block_ = &block;
    entry.op.header_ = header;
    return {};
  }
  const auto is_signature = [](const Step& step) {
    return step.kind == StepKind::type || step.kind == StepKind::check;
  };
  const auto signature = std::find_if(parsed.steps.begin(), parsed.steps.end(), is_signature);
  if (signature != parsed.steps.end()) return clash(signature->offset, "only its meanings can be replaced");
  entry.op.replacement_ = &block;
  entry.op.replacement_header_ = header;
  return {};
}

const Operator* Opset::State::ready(Entry& entry) {
  if (entry.ready) return &entry.op;
  if (entry.failure) return nullptr;
  Result<Schema> schema = parse_header(entry.op.block_->place, entry.op.header_);
  Result<void> parsed = schema ? entry.op.block_->check() : Result<void>(schema.error());
  if (!parsed) {
    entry.failure = parsed.error();
    return nullptr;
  }
  entry.op.schema_ = std::move(*schema);
  entry.ready = true;
  return &entry.op;
}

Opset::State::Entry* Opset::State::derive(const std::string& target) {
  for (const DerivedName& way : possible_origins(target)) {
    std::vector<std::string> origins = way.origins;
    const auto views = by_name.find(way.any_view_of);
    if (views != by_name.end()) origins.insert(origins.end(), views->second.begin(), views->second.end());
    for (const std::string& name : origins) {
      const auto found = by_target.find(name);
      const Operator* origin = found == by_target.end() ? nullptr : ready(*found->second);
      if (!origin || !can_derive(*origin, way.derivation)) continue;
      Entry& entry = entries.emplace_back();
      entry.ready = true;
      entry.op = *origin;
      entry.op.schema_ = derive_schema(origin->schema(), way.derivation);
      entry.op.derivation_ = way.derivation;
      entry.op.origin_ = origin;
      by_target.emplace(target, &entry);
      return &entry;
    }
  }
  return nullptr;
}

Opset::State::Entry* Opset::State::entry(const std::string& target) {
  const auto found = by_target.find(target);
  return found != by_target.end() ? found->second : derive(target);
}

const Operator* Opset::find(const std::string& target) const {
  const std::lock_guard lock(state_->mutex);
  State::Entry* entry = state_->entry(target);
  if (!entry) entry = state_->entry(canonical(target));
  return entry ? state_->ready(*entry) : nullptr;
}

Result<const Operator*> Opset::check(const std::string& target) const {
  if (const Operator* op = find(target)) return op;
  const std::lock_guard lock(state_->mutex);
  const std::string wanted = canonical(target);
  if (State::Entry* entry = state_->entry(wanted)) return *entry->failure;
  Diagnostic failure = error(Status::bad_input, 101, "there is no operator " + wanted);
  const auto name = state_->by_name.find(std::string(name_of_target(wanted)));
  std::string near;
  if (name != state_->by_name.end()) {
    std::vector<std::string> candidates = name->second;
    std::sort(candidates.begin(), candidates.end());
    near = nearest(wanted, candidates);
    if (near.empty()) near = candidates.front();
  } else {  // the namespace is left out, or is right: it says nothing of how near a name is
    const auto bare = [](const std::string& full) {
      const size_t colons = full.find("::");
      return colons == std::string::npos ? full : full.substr(colons + 2);
    };
    std::map<std::string, std::string> full;  // by bare name
    for (const auto& [known, targets] : state_->by_name) {
      std::string& kept = full[bare(known)];
      if (kept.empty() || known < kept) kept = known;
    }
    std::vector<std::string> candidates;
    for (const auto& [short_name, known] : full) candidates.push_back(short_name);
    if (const std::string found = nearest(bare(std::string(name_of_target(wanted))), candidates); !found.empty())
      near = full.at(found);
  }
  if (!near.empty()) failure.notes.push_back({"did you mean " + near + "?"});
  return failure;
}

std::vector<const Operator*> Opset::overloads(const std::string& name) const {
  const std::lock_guard lock(state_->mutex);
  const auto cached = state_->overloads.find(name);
  if (cached != state_->overloads.end()) return cached->second;
  std::vector<const Operator*> result;
  const auto add = [&](const std::string& target) {
    State::Entry* entry = state_->entry(target);
    const Operator* op = entry ? state_->ready(*entry) : nullptr;
    if (op && std::find(result.begin(), result.end(), op) == result.end()) result.push_back(op);
  };
  const auto written = state_->by_name.find(name);
  if (written != state_->by_name.end()) {
    for (const std::string& target : written->second) add(target);
    for (const std::string& target : written->second) add(target == name ? target + ".out" : target + "_out");
  } else {
    // add_, slice_copy, slice_scatter: an overload for each of the origin's.
    for (const DerivedName& way : possible_origins(name)) {
      const auto origin = state_->by_name.find(way.origins.front());
      if (origin == state_->by_name.end()) continue;
      for (const std::string& target : origin->second) add(name + target.substr(way.origins.front().size()));
      if (result.empty()) add(name);
    }
  }
  return state_->overloads.emplace(name, std::move(result)).first->second;
}

std::vector<std::string> Opset::names() const {
  const std::lock_guard lock(state_->mutex);
  std::set<std::string> names;
  // Tags and meanings are looked for as text: parsing every block to list names would cost 20 times as much.
  for (const LazyBlock& block : state_->blocks) {
    const std::string_view body(block.place.file->text.data() + block.place.body, block.place.end - block.place.body);
    const size_t tags = body.find("  tags ");
    const std::string_view line = tags == std::string_view::npos ? "" : body.substr(tags, body.find('\n', tags) - tags);
    const bool is_view = body.find("\n  view ") != std::string_view::npos || body.starts_with("  view ");
    for (const std::string& target : block.targets) {
      const std::string name(name_of_target(target));
      names.insert(name);
      if (line.find("inplace") != std::string_view::npos) names.insert(name + '_');
      if (is_view) names.insert({name + "_copy", name + "_scatter"});
    }
  }
  return {names.begin(), names.end()};
}

Result<TargetSet> Opset::target_set(const std::string& name) const {
  namespace fs = std::filesystem;
  const bool is_path = name.find_first_of("./") != std::string::npos;
  const fs::path path = is_path ? fs::path(name) : fs::path(state_->folder) / (name + ".set");
  Result<std::string> text = read_file(path);
  if (!text) {
    std::vector<std::string> known;
    std::error_code problem;
    for (fs::directory_iterator entry(state_->folder, problem), end; !problem && entry != end; entry.increment(problem))
      if (entry->path().extension() == ".set") known.push_back(entry->path().stem().string());
    std::sort(known.begin(), known.end());
    Diagnostic failure = error(Status::usage, 117, "there is no operator set '" + name + "'");
    std::string list;
    for (const std::string& set : known) list += (list.empty() ? "" : ", ") + set;
    if (!list.empty()) failure.notes.push_back({"known sets: " + list});
    return failure;
  }
  const SourceFile file{is_path ? name : "opsets/" + name + ".set", std::move(*text)};
  std::set<std::string> targets, tags;
  for (size_t at = 0; at < file.text.size();) {
    const size_t end = std::min(file.text.find('\n', at), file.text.size());
    std::istringstream line(file.text.substr(at, std::min(end, file.text.find('#', at)) - at));
    std::string word, tag;
    if (line >> word) {
      if (word == "tag" && line >> tag)
        tags.insert(tag);
      else if (find(word))
        targets.insert(canonical(word));
      else
        return error(Status::bad_input, 101, "there is no operator " + word)
            .at(file.span(file.text.find(word, at), word.size()));
    }
    at = end + 1;
  }
  const auto contains = [targets = std::move(targets), tags = std::move(tags)](const Operator& op) {
    return targets.contains(op.target()) ||
           std::any_of(tags.begin(), tags.end(), [&](const std::string& tag) { return op.has_tag(tag); });
  };
  return TargetSet{name, contains};
}

bool Opset::has_tag(const ir::Node& node, const std::string& tag) const {
  const Operator* op = find(node.target());
  return op && op->has_tag(tag);
}

std::vector<Diagnostic> Opset::check_all() const {
  std::vector<Diagnostic> failures;
  for (const auto& [name, function] : state_->library.functions) {
    Result<const Function::Body*> body = body_of(function, state_->library);
    if (!body) failures.push_back(body.error());
  }
  for (const LazyBlock& block : state_->blocks) {
    Result<void> parsed = block.check();
    if (!parsed)
      failures.push_back(parsed.error());
    else
      check_examples(*this, block, failures);
  }
  return failures;
}

}  // namespace atenon::opset
