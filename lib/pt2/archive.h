// The files inside a .pt2 archive: the program as JSON, and tensors by name. Private to lib/pt2.
//
// Three layouts are in use. PyTorch 2.9 and later: a folder with models/NAME.json, and data/weights and data/constants
// with one file of raw bytes for each storage, and a JSON table beside them. 2.8: the same, but one file of torch.save
// for all weights. Up to 2.7: serialized_exported_program.json and serialized_state_dict.pt at the root.
#pragma once

#include <map>
#include <string>

#include "arrays/zip_archive.h"
#include "ir/program.h"
#include "opset/opset.h"
#include "pt2/json_items.h"
#include "tensor/tensor.h"

namespace atenon::pt2 {

struct Archive {
  std::string file_name;
  Contents program;                       // JSON
  std::map<std::string, Tensor> weights;  // the state dict; tied tensors share their Storage
  std::vector<ir::ExtraFile> extra_files;
  std::map<std::string, Tensor> constants;  // other tensors, buffers that no state dict has among them
};

// E0821: no archive of torch.export, or of several models; E0822: damaged; E0823: tensors of an unsupported kind.
Result<Archive> open(const Contents& contents, const std::string& file_name);

// What the archive says, as a program; errors as of pt2::read.
Result<ir::ExportedProgram> read_program(const Archive& archive, opset::Opset& opset);

// The numbers of PyTorch's c10::ScalarType; nullopt for types that we lack.
std::optional<ScalarType> dtype_of(int64_t number);
int number_of(ScalarType dtype);

}  // namespace atenon::pt2
