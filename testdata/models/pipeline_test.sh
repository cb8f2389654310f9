#!/bin/sh
# The nine models from their files to answers, held to what PyTorch 2.13 computes: with all dimensions dynamic, at batch 1 and 3
# and two lengths, then at batch 1 alone; every stage written twice with the same bytes; parameters equal to PyTorch's.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/${1:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
models="mlp lstm mobilenet_v2 unet resnet50 gpt2_decode vit_b16 bert gpt2"
case $build in *sanitize*) models="mlp lstm mobilenet_v2" ;; esac  # a large model takes minutes there
for model in $models; do
  for twice in 1 2; do
    atenon capture "$root/testdata/models/$model.py" -o "$work/captured$twice.atn"
    atenon decompose "$work/captured$twice.atn" -o "$work/decomposed$twice.atn"
    atenon specialize "$work/decomposed$twice.atn" -o "$work/specialized$twice.atn"
    atenon lower "$work/specialized$twice.atn" -o "$work/lowered$twice.atn"
  done
  for stage in captured decomposed specialized lowered; do
    cmp "$work/${stage}1.atn" "$work/${stage}2.atn"
  done
  atenon pack "$work/lowered1.atn" -o "$work/$model.atn"
  "$root/scripts/reference.py" check "$model" "$work/$model.atn" --build "$build"
  # At one size, sizes of 1 are constants: other kernels are chosen.
  atenon specialize batch=1 "$work/decomposed1.atn" | atenon lower -o "$work/one.atn"
  case $model in bert | gpt2) case=b1s37 ;; *) case=b1 ;; esac
  "$root/scripts/reference.py" check "$model" "$work/one.atn" --case $case --build "$build"
  rm "$work"/*.atn
done
