#!/bin/sh
# The same bits for 1, 2 and 8 threads; and the arena that is planned is the one that its formula gives.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for model in lstm mobilenet_v2; do
  atenon capture "$root/testdata/models/$model.py" | atenon decompose | atenon specialize | atenon lower -o "$work/$model.atn"
  "$root/scripts/reference.py" inputs $model b3 -o "$work/inputs.npz"
  for threads in 1 2 8; do
    atenon run "$work/$model.atn" --inputs "$work/inputs.npz" --threads $threads -o "$work/$threads.npz"
  done
  cmp "$work/1.npz" "$work/2.npz"
  cmp "$work/1.npz" "$work/8.npz"
  line=$(atenon run "$work/$model.atn" --inputs "$work/inputs.npz" --memory | grep '^arena')
  planned=$(echo "$line" | sed 's/^arena *\([0-9]*\) .*/\1/')
  formula=$(echo "$line" | sed 's/.* = //; s/batch/3/g; s#//#/#g')
  [ "$planned" -eq $(($formula)) ]
  echo "$model: the same with 1, 2 and 8 threads; arena $planned = $formula"
done
