#include "specialize/specialize.h"

#include "program/program_file.h"
#include "specialize/passes.h"

namespace atenon::specialize {

Result<ir::ExportedProgram> run(ir::ExportedProgram program, const opset::Opset& opset, const Options& options) {
  if (Result<void> bound = bind(program, options); !bound) return bound.error();
  const std::vector<ir::Weight> given = program.weights;
  // Sizes and ranges are what was asked for; each variant has its own graph.
  for (ir::EntryPoint& entry : program.entries) {
    for (ir::Variant& variant : entry.variants) {
      Scope scope{program, entry, variant, opset, options, entry.facts(variant)};
      if (inline_conditions(scope) == Changed::yes) scope.facts = entry.facts(variant);
      if (Result<Changed> done = remove_identities(scope); !done) return done.error();
      merge_duplicates(scope);
      remove_unused(scope);  // what was read to know its sizes alone
      for (const auto pass : {select_by_masks, narrow_sorts, flatten_concatenations, concatenate_writes}) {
        Result<Changed> done = pass(scope);
        if (!done) return done.error();
        if (*done == Changed::yes) remove_unused(scope);  // others look for sole readers
      }
      if (!options.keep_weights) {
        if (Result<Changed> done = fold_constants(scope); !done) return done.error();
        // Operands of products and of what follows them are constants where they can be.
        if (Result<Changed> done = fold_batch_norms(scope); !done) return done.error();
        Result<Changed> merged = merge_parallel_products(scope);
        if (!merged) return merged.error();
        if (*merged == Changed::yes) {  // what scales and shifts a sum now stands behind a product
          if (Result<Changed> done = fold_batch_norms(scope); !done) return done.error();
        }
        if (Result<Changed> done = shorten_affine_maps(scope); !done) return done.error();
        if (Result<Changed> done = postpone_concatenations(scope); !done) return done.error();
        if (Result<Changed> done = untranspose_convolutions(scope); !done) return done.error();
        if (Result<Changed> done = flatten_convolutions_of_one_pixel(scope); !done) return done.error();
        if (Result<Changed> done = split_concatenations(scope); !done) return done.error();
        if (Result<Changed> done = activate_before_views(scope); !done) return done.error();
        Result<Changed> narrowed = narrow_gathered_products(scope);
        if (!narrowed) return narrowed.error();
        if (*narrowed == Changed::yes) merge_duplicates(scope);  // indices that several gathers share
        if (Result<Changed> done = multiply_before_repeating(scope); !done) return done.error();
        if (Result<Changed> done = multiply_chosen_matrices(scope); !done) return done.error();
        write_numbers(scope);  // last, as the others look for constants among operands
      }
      if (Result<Changed> done = nest_concatenations(scope); !done) return done.error();
      remove_unused(scope);
      discharge_assumptions(scope);
    }
  }
  if (Result<void> intact = program::verify_read_digests(given); !intact) return intact.error();
  return program;
}

}  // namespace atenon::specialize
