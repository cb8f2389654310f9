#!/bin/sh
# Archives of torch.export give what PyTorch computed, as captured, decomposed and lowered.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in linear old updates decomposed nested sizes control_flow branches variadic numbers; do
  data="$root/testdata/pt2/$name"
  atenon capture "$data.pt2" -o "$work/captured.atn"
  atenon decompose "$work/captured.atn" | atenon specialize -o "$work/specialized.atn"
  atenon lower "$work/specialized.atn" -o "$work/lowered.atn"
  for stage in captured specialized lowered; do
    atenon run "$work/$stage.atn" --inputs "$data.in.safetensors" -q -o "$work/out.safetensors"
    python3 "$root/testdata/pt2/compare.py" "$data.out.safetensors" "$work/out.safetensors"
  done
done
