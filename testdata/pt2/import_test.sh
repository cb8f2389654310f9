#!/bin/sh
# Archives of torch.export give what PyTorch computed, as captured, decomposed and lowered.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in linear old updates decomposed nested sizes; do
  data="$root/testdata/pt2/$name"
  atenon capture "$data.pt2" -o "$work/captured.atn"
  atenon decompose "$work/captured.atn" | atenon specialize -o "$work/specialized.atn"
  stages="captured specialized lowered"
  case $name in sizes) stages="captured specialized" ;; esac  # lower plans no memory for sizes that depend on data
  case $stages in *lowered*) atenon lower "$work/specialized.atn" -o "$work/lowered.atn" ;; esac
  for stage in $stages; do
    atenon run "$work/$stage.atn" --inputs "$data.in.safetensors" -q -o "$work/out.safetensors"
    python3 "$root/testdata/pt2/compare.py" "$data.out.safetensors" "$work/out.safetensors"
  done
done
