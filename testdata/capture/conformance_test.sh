#!/bin/sh
# Captures the models of testdata/capture/conformance and holds outputs, signature, dimensions and ranges to what PyTorch gave
# (reference/*.json, written by scripts/conformance-capture). What may differ is listed, with its reason, in differences.txt.
set -eu
folder=$(cd "$(dirname "$0")/conformance" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for reference in "$folder"/reference/*.json; do
  name=$(basename "$reference" .json)
  atenon-capture --script "$folder/describe.py" "$folder/$name.py" > "$work/$name.json" 2> "$work/messages" || cat "$work/messages"
  /usr/bin/python3 -B "$folder/compare.py" "$reference" "$work/$name.json"
done > "$work/found.txt"
# A model that one side refuses has nothing to compare; of 124, few may be refused.
refused=$(grep -c ': error: ' "$work/found.txt" || true)
if [ "$refused" -gt 8 ]; then grep ': error: ' "$work/found.txt"; exit 1; fi
! grep -v ': error: \|: export: ' "$work/found.txt" | grep -vxF -f "$folder/differences.txt"
