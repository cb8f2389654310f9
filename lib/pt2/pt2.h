// Archives of torch.export (.pt2): read without PyTorch, written so that torch.export.load reads them.
//
// An archive holds the graph as JSON (torch/_export/serde/schema.py describes it), the bytes of parameters, buffers and
// constants, and example inputs. Reading executes no pickle: tables and JSON are checked, weights are mapped. An export
// for training has updates in place and views; what comes out here is functional, as every program is. The archive's
// own claims about shapes are not believed: operators are bound to our schemas and their types inferred anew, and what
// that needs is an assumption of the program.
#pragma once

#include <string>

#include "ir/program.h"
#include "opset/opset.h"
#include "support/streams.h"

namespace atenon::pt2 {

// Told by its first bytes: a zip archive. What is inside, read() finds out.
bool is_archive(const Contents& contents);

// E0821: not an archive of torch.export; E0822: damaged; E0823: a schema version, or kinds of tensors and inputs, that
// are not supported; E0824: operators of PyTorch's that are not in the sets, all of them, with the lines of Python that
// they come from; E0825: a graph that cannot be expressed. Operators of others are added to `opset`, declared by their
// calls.
Result<ir::ExportedProgram> read(const Contents& contents, const std::string& file_name, opset::Opset& opset);

// Writes a program of one entry point and one variant as torch.export.load of PyTorch 2.13 reads it; the same program
// gives the same bytes. All arguments become positional ones; classes in the trees of inputs and outputs become the
// dicts or tuples that they are made of; assumptions become guards. E0826: what an archive cannot say (lowered nodes,
// numbers that nodes find, several variants); "-" is standard output.
Result<void> write(const ir::ExportedProgram& program, const opset::Opset& opset, const std::string& path);

}  // namespace atenon::pt2
