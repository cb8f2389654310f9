// The Make rule of `--depfile`.
#pragma once

#include <string>
#include <vector>

#include "support/result.h"

namespace atenon::capture {

// `targets: model_file imports...`, and an empty rule for each import, so that a deleted one is no error. `model_path`
// is the absolute path of `model_file`, which is named as the user named it.
Result<void> write_depfile(const std::string& file, const std::vector<std::string>& targets,
                           const std::string& model_file, const std::string& model_path,
                           const std::vector<std::string>& imports);

}  // namespace atenon::capture
