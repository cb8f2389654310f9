// Reads programs: text or binary, from a file, a pipe or memory.
#include <zstd.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstring>
#include <set>

#include "program/container.h"
#include "program/encode.h"
#include "program/incoming.h"
#include "program/program_file.h"
#include "support/hash.h"
#include "support/parallel.h"
#include "support/streams.h"
#include "text/limits.h"
#include "text/text.h"

namespace atenon::program {
namespace {

// The most bytes that zstd makes of one: a file cannot claim more memory than this times its own size.
constexpr uint64_t zstd_expansion = 1 << 16;

// Less is hashed before another thread has woken up.
constexpr size_t worth_threads = size_t{4} << 20;

std::string shown(const std::string& path) { return path == "-" ? "<stdin>" : path; }

std::string_view view_of(Storage& storage) { return {static_cast<const char*>(storage.data()), storage.size()}; }

// The segments of a program: in memory, and behind them those that are still coming.
struct Segments {
  std::string_view bytes;       // in memory
  std::shared_ptr<void> owner;  // of these
  std::shared_ptr<IncomingSegments> incoming = nullptr;
  size_t size = bytes.size();  // of all
};

std::optional<std::string> segment_problem(const wire::Segment& segment, const Segments& segments) {
  const uint64_t size = segment.size(), stored = segment.stored_size();
  if (segment.digest().size() != 16) return "a segment has no digest";
  if (size > static_cast<uint64_t>(text::max_bytes)) return "a segment is too large";
  if (segment.encoding() == wire::Segment::ABSENT) return std::nullopt;
  if (segment.offset() > segments.size || stored > segments.size - segment.offset())
    return "a segment lies outside of the file";
  if (segment.offset() < segments.bytes.size() && stored > segments.bytes.size() - segment.offset())
    return "segments overlap";  // memory ends where a large one begins
  if (segment.encoding() == wire::Segment::RAW)
    return stored == size ? std::nullopt : std::optional("a segment has two sizes");
  if (segment.encoding() != wire::Segment::ZSTD) return "a segment is stored in a way that this version does not know";
  const std::string_view bytes = segments.bytes.substr(segment.offset(), stored);
  if (size > stored * zstd_expansion || ZSTD_getFrameContentSize(bytes.data(), bytes.size()) != size)
    return "a segment has two sizes";
  return std::nullopt;
}

std::shared_ptr<Storage> storage_of(const wire::Segment& segment, const Segments& segments) {
  const std::string digest = digest_hex(segment.digest());
  if (segment.encoding() == wire::Segment::ABSENT) return Storage::absent(segment.size(), digest);
  std::shared_ptr<Storage> storage;
  if (segment.offset() + segment.stored_size() > segments.bytes.size()) {
    storage = Storage::incoming(segment.size(), segments.incoming, segment.offset() - segments.bytes.size());
  } else if (const std::string_view bytes = segments.bytes.substr(segment.offset(), segment.stored_size());
             segment.encoding() == wire::Segment::RAW) {
    storage = Storage::view(const_cast<char*>(bytes.data()), bytes.size(), segments.owner, /*writable=*/false);
  } else {
    // Damage shows as zeros here, and as an error in verify_digests.
    storage = Storage::lazy(segment.size(), [bytes, size = segment.size(), owner = segments.owner](void* data) {
      if (ZSTD_isError(ZSTD_decompress(data, size, bytes.data(), bytes.size()))) std::memset(data, 0, size);
    });
    storage->set_packed(bytes, segments.owner);
  }
  storage->set_digest(digest);
  storage->set_unchecked(true);
  return storage;
}

// True if the bytes are what their digest says; remembers it.
bool is_intact(Storage& storage) {
  if (!storage.is_unchecked()) return true;
  if (xxh3_128(storage.data(), storage.size()) != storage.digest()) return false;
  storage.set_unchecked(false);
  return true;
}

// A message, and the memory that it lies in: large blocks, which go back to the system with it.
class Message {
 public:
  bool parse(std::string_view bytes) {
    return bytes.size() <= INT_MAX && program_->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  }
  const wire::Program& program() const { return *program_; }

 private:
  static google::protobuf::ArenaOptions large_blocks() {
    google::protobuf::ArenaOptions options;
    options.max_block_size = size_t{1} << 18;
    return options;
  }
  google::protobuf::Arena arena_{large_blocks()};
  wire::Program* const program_ = google::protobuf::Arena::CreateMessage<wire::Program>(&arena_);
};

Result<std::unique_ptr<Message>> parse_message(std::string_view bytes, const std::string& file_name) {
  auto message = std::make_unique<Message>();
  if (!message->parse(bytes)) return damaged(234, file_name, "this is no valid program: its message does not parse");
  return message;
}

Result<ir::ExportedProgram> decode_checked(const wire::Program& message, const Segments& segments,
                                           const std::string& file_name) {
  for (const wire::Segment& segment : message.segments()) {
    if (const auto problem = segment_problem(segment, segments)) {
      return damaged(234, file_name, "this is no valid program: " + *problem);
    }
  }
  return decode(message, file_name, [&](const wire::Segment& segment) { return storage_of(segment, segments); });
}

Result<ir::ExportedProgram> parse_binary(const std::shared_ptr<Storage>& file, const std::string& file_name) {
  const Result<Container> container = open_container(view_of(*file), file_name);
  if (!container) return container.failure();
  const Result<std::unique_ptr<Message>> message = parse_message(container->message, file_name);
  if (!message) return message.failure();
  Result<ir::ExportedProgram> program = decode_checked((*message)->program(), {container->segments, file}, file_name);
  if (!program) return program;
  for (const ir::CodeSegment& code : program->code) {
    if (!code.bytes->is_absent() && !is_intact(*code.bytes)) {
      return damaged(232, file_name, "the code '" + code.name + "' is damaged: its digest does not match");
    }
  }
  return program;
}

// How much of a pipe's segments is read at once: what lies before the first large one, and whatever is compressed,
// because a frame is passed on from memory.
size_t read_at_once(const wire::Program& message, size_t segments_size) {
  size_t first_large = segments_size;
  for (const wire::Segment& segment : message.segments()) {
    if (segment.encoding() == wire::Segment::ZSTD) return segments_size;
    if (segment.encoding() == wire::Segment::RAW && segment.stored_size() >= large_segment)
      first_large = std::min<size_t>(first_large, segment.offset());
  }
  return first_large;
}

// Of a pipe, only what stands before the large segments. What is no binary program is handed back in `text`.
Result<ir::ExportedProgram> read_head(InputStream stream, const std::string& file_name,
                                      std::optional<std::string>& text) {
  std::string header(header_size, '\0');
  const Result<size_t> got = stream.read(header.data(), header.size());
  if (!got) return got.failure();
  header.resize(*got);
  if (!has_magic(header)) {
    const Result<Contents> rest = stream.rest();
    if (!rest) return rest.failure();
    text = header + std::string(rest->text());
    return ir::ExportedProgram();
  }
  const Result<Layout> layout = read_header(header, file_name);
  if (!layout) return layout.failure();
  const size_t wanted = layout->segments_start - header_size;
  const Result<Contents> head = stream.rest(wanted);
  if (!head) return head.failure();
  if (head->size < wanted) return cut_off(file_name, header_size + head->size);
  const std::string_view bytes = head->text().substr(0, layout->message_size);
  if (Result<void> right = check_digest(header, bytes, file_name); !right) return right.error();
  const Result<std::unique_ptr<Message>> message = parse_message(bytes, file_name);
  if (!message) return message.failure();

  const size_t at_once = read_at_once((*message)->program(), layout->segments_size());
  const Result<Contents> first = stream.rest(at_once);
  if (!first) return first.failure();
  if (first->size < at_once) return cut_off(file_name, layout->segments_start + first->size);
  const auto incoming = std::make_shared<IncomingSegments>(
      std::move(stream), file_name, layout->segments_size() - at_once, container_trailer(layout->file_size));
  if (at_once == layout->segments_size())
    if (Result<void> finished = incoming->finish(); !finished) return finished.error();
  return decode_checked((*message)->program(), {first->text(), first->keep_alive, incoming, layout->segments_size()},
                        file_name);
}

// Gives absent bytes what the other program holds under the same digest.
Result<void> supply_segments(ir::ExportedProgram& program, const std::string& path) {
  Result<ir::ExportedProgram> source = read(path);
  if (!source) return source.error();
  std::map<std::pair<std::string, size_t>, std::shared_ptr<Storage>> known;
  for (const ir::Weight& weight : source->weights)
    known[{text::digest_of(*weight.tensor.storage), weight.tensor.storage->size()}] = weight.tensor.storage;
  for (const ir::CodeSegment& code : source->code)
    known[{text::digest_of(*code.bytes), code.bytes->size()}] = code.bytes;
  for (const ir::ExtraFile& file : source->extra_files)
    known[{text::digest_of(*file.bytes), file.bytes->size()}] = file.bytes;
  // Weights that were tied stay tied, and others apart: one storage of ours becomes one storage over the source's
  // bytes.
  std::map<const Storage*, std::shared_ptr<Storage>> supplied;
  const auto supply = [&](std::shared_ptr<Storage>& storage) {
    const auto found = storage->is_absent() ? known.find({storage->digest(), storage->size()}) : known.end();
    if (found == known.end() || found->second->is_absent()) return;
    std::shared_ptr<Storage>& bytes = supplied[storage.get()];
    if (!bytes) {
      const std::shared_ptr<Storage> from = found->second;
      bytes = Storage::view(const_cast<void*>(from->data()), from->size(), from, /*writable=*/false);
      bytes->set_digest(from->digest());
      bytes->set_unchecked(from->is_unchecked());
    }
    storage = bytes;
  };
  for (ir::Weight& weight : program.weights) supply(weight.tensor.storage);
  for (ir::CodeSegment& code : program.code) supply(code.bytes);
  for (ir::ExtraFile& file : program.extra_files) supply(file.bytes);
  return {};
}

Storages::value_type named(const ir::Weight& weight) {
  return {weight.tensor.storage.get(), "weight '" + weight.name + "'"};
}

// What a file is that is neither a binary program nor a text one, as far as its first bytes tell.
Diagnostic not_a_program(std::string_view bytes, const std::string& file_name) {
  if (bytes.find_first_not_of(" \t\r\n") == bytes.npos) {
    return damaged(231, file_name, "there is no program: the input is empty")
        .note("the tool that should have written it may have failed");
  }
  Diagnostic diagnostic = damaged(230, file_name, "this is not a program");
  if (file_name.ends_with(".py"))
    return std::move(diagnostic).note("`atenon capture` makes a program of a Python file");
  if (!bytes.starts_with("PK\x03\x04")) return diagnostic;
  if (bytes.find("/archive_format") != bytes.npos)
    return std::move(diagnostic).note("`atenon capture` makes a program of an archive by torch.export");
  return std::move(diagnostic)
      .note("of a .npz or .pt file, `atenon capture --weights` and `atenon run --inputs` take the arrays");
}

// A text program starts with the word `program`, after comments.
bool looks_like_text(std::string_view bytes) {
  while (!bytes.empty() && (bytes[0] == '#' || std::isspace(static_cast<unsigned char>(bytes[0])))) {
    bytes.remove_prefix(bytes[0] == '#' ? std::min(bytes.find('\n'), bytes.size()) : 1);
  }
  return bytes.starts_with("program");
}

// What both ways of reading end in.
Result<ir::ExportedProgram> complete(Result<ir::ExportedProgram> program, const ReadOptions& options) {
  if (!program) return program;
  if (!options.segments.empty()) {
    if (Result<void> supplied = supply_segments(*program, options.segments); !supplied) return supplied.error();
  }
  if (options.verify_weights) {
    if (Result<void> verified = verify_digests(*program); !verified) return verified.error();
  }
  return program;
}

Result<void> verify(const Storages& storages) {
  std::vector<char> intact(storages.size(), true);
  const auto check = [&](int64_t i) {
    Storage& storage = *storages[static_cast<size_t>(i)].first;
    intact[static_cast<size_t>(i)] = storage.is_absent() || is_intact(storage);
  };
  size_t unchecked = 0;
  for (const auto& [storage, what] : storages) unchecked += storage->is_unchecked() ? storage->size() : 0;
  if (unchecked >= worth_threads) {
    parallel_for(static_cast<int64_t>(storages.size()), check);
  } else {
    for (size_t i = 0; i < storages.size(); ++i) check(static_cast<int64_t>(i));
  }
  for (size_t i = 0; i < storages.size(); ++i) {
    const auto* from = dynamic_cast<const IncomingSegments*>(storages[i].first->origin().get());
    if (from && from->problem()) return *from->problem();
    if (!intact[i]) return not_intact(storages[i].second);
  }
  return {};
}

}  // namespace

Storages storages_of(const ir::ExportedProgram& program) {
  Storages storages;
  std::set<const Storage*> seen;
  const auto add = [&](Storages::value_type entry) {
    if (seen.insert(entry.first).second) storages.push_back(std::move(entry));
  };
  for (const ir::Weight& weight : program.weights) add(named(weight));
  for (const ir::CodeSegment& code : program.code) add({code.bytes.get(), "code '" + code.name + "'"});
  for (const ir::ExtraFile& file : program.extra_files) add({file.bytes.get(), "extra file '" + file.name + "'"});
  return storages;
}

Result<ir::ExportedProgram> parse(std::shared_ptr<Storage> bytes, const std::string& file_name,
                                  const ReadOptions& options) {
  const std::string_view content = view_of(*bytes);
  const bool is_binary = has_magic(content);
  if (!is_binary && !looks_like_text(content)) return not_a_program(content, file_name);
  return complete(is_binary ? parse_binary(bytes, file_name) : text::parse(content, file_name, options.places),
                  options);
}

Result<ir::ExportedProgram> read(const std::string& path, const ReadOptions& options) {
  Result<InputStream> stream = InputStream::open(path);
  if (!stream) return stream.error();
  if (options.leave_in_pipe && stream->is_pipe()) {
    std::optional<std::string> text;
    Result<ir::ExportedProgram> program = read_head(std::move(*stream), shown(path), text);
    if (!text) return complete(std::move(program), options);
    return parse(Storage::view(text->data(), text->size(), nullptr, /*writable=*/false), shown(path), options);
  }
  Result<Contents> contents = stream->rest();
  if (!contents) return contents.error();
  return parse(Storage::view(contents->bytes, contents->size, contents->keep_alive, /*writable=*/false), shown(path),
               options);
}

Result<void> verify_digests(const ir::ExportedProgram& program) { return verify(storages_of(program)); }

Result<void> verify_read_digests(const std::vector<ir::Weight>& weights) {
  Storages storages;
  for (const ir::Weight& weight : weights)
    if (!incoming(*weight.tensor.storage)) storages.push_back(named(weight));
  return verify(storages);
}

std::set<std::string> unread_weights(const ir::ExportedProgram& program) {
  std::set<std::string> unread, read;
  const auto is_read = [](const ir::Value& input) {
    if (input.returned > 0) return true;
    return std::any_of(input.users.begin(), input.users.end(), [&](const ir::Node* call) {
      const ir::Argument* said = call->annotation("unread");
      const std::vector<ir::Value*> operands = call->operands();
      for (size_t i = 0; i < operands.size(); ++i) {
        if (operands[i] != &input) continue;
        if (!said || !said->is<ir::ArgumentList>()) return true;
        const auto is_it = [&](const ir::Argument& each) {
          return each.is<ir::SymInt>() && each.get<ir::SymInt>() == ir::SymInt(static_cast<int64_t>(i));
        };
        if (std::none_of(said->get<ir::ArgumentList>().begin(), said->get<ir::ArgumentList>().end(), is_it))
          return true;
      }
      return false;
    });
  };
  for (const ir::EntryPoint& entry : program.entries) {
    for (const ir::OutputSpec& output : entry.signature.outputs) read.insert(output.target);
    for (const ir::InputSpec& input : entry.signature.inputs)
      for (const ir::Variant& variant : entry.variants) {
        const ir::Value* value = input.kind == ir::InputKind::user_input ? nullptr : variant.graph.find(input.value);
        if (value && value->has_users()) (is_read(*value) ? read : unread).insert(input.target);
      }
  }
  std::erase_if(unread, [&](const std::string& name) { return read.contains(name); });
  return unread;
}

Result<void> require_weights(const ir::ExportedProgram& program) {
  const std::set<std::string> unread = unread_weights(program);
  std::set<const Storage*> needless;
  for (const ir::Weight& weight : program.weights)
    if (unread.contains(weight.name)) needless.insert(weight.tensor.storage.get());
  for (const auto& [storage, what] : storages_of(program)) {
    if (!storage->is_absent() || needless.contains(storage)) continue;
    return error(Status::bad_input, 235, "the bytes of " + what + " are not in the program, only their digest")
        .note("a text program names large tensors by digest; `--segments FILE` names a program that has the bytes");
  }
  return verify_digests(program);
}

}  // namespace atenon::program
