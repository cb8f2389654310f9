// Kernels of the user's for operators that are only declared (atenon_kernel.h has the interface).
#pragma once

#include "reference/reference.h"
#include "support/shared_object.h"

namespace atenon::run {

class KernelLibraries : public reference::DeclaredKernels {
 public:
  // Opens the libraries among the segments, which runs code in them. E0626: one does not open, or is none of ours.
  static Result<std::unique_ptr<KernelLibraries>> open(const std::vector<ir::CodeSegment>& segments);

  // E0627: the kernel fails, or leaves a result without room.
  Result<std::optional<std::vector<reference::Datum>>> call(const ir::Node& node, const opset::Call& call,
                                                            const reference::Environment& environment) const override;

 private:
  struct Library {
    std::string name;
    std::shared_ptr<const SharedObject> object;
  };
  std::vector<Library> libraries_;
};

}  // namespace atenon::run
