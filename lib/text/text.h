// The text form of programs: what `atenon show` prints and what every tool also reads. man/atenon-program.5 describes
// it.
//
// Printing and parsing need no operator schemas. Text and binary are two spellings of one program: with the bytes of
// large tensors at hand (`--segments`), text -> binary -> text and binary -> text -> binary are identities.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ir/program.h"

namespace atenon::text {

struct PrintOptions {
  bool inline_tensors = true;  // tensors of up to 64 elements are written out, larger ones by digest
};

std::string print(const ir::ExportedProgram& program, const PrintOptions& options = {});
std::string print(const ir::Graph& graph, const std::string& indent = "");
// One node as it stands in the text form, without provenance mark, for messages.
std::string print(const ir::Node& node);
std::string print(const ir::Argument& argument);
// An entry point without its graphs: symbols, inputs, outputs, and what each variant assumes.
std::string print_signature(const ir::EntryPoint& entry);
std::string print_tree(const ir::TreeSpec& tree);

// The digest of a storage's bytes, computed once; makes a lazy storage's bytes.
std::string digest_of(Storage& storage);

// Where the operators of a parsed program's nodes stand in its text, for messages that come after parsing.
using NodePlaces = std::map<const ir::Node*, SourceSpan>;

// Parses a whole program; large tensors come back with absent storages (Storage::absent). E02xx, pointing at line and
// column. Fills `places` if given; they hold while the program's graphs do, also after it is moved.
Result<ir::ExportedProgram> parse(std::string_view text, const std::string& file_name, NodePlaces* places = nullptr);

// Where node `node` came from, as notes under an error: `captured from net.py:12: h = F.gelu(y)`.
std::vector<Note> provenance_notes(const ir::ExportedProgram& program, const ir::Node& node);

}  // namespace atenon::text
