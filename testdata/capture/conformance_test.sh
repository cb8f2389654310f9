#!/bin/sh
# Captures the models of testdata/capture/conformance and holds outputs, signature, dimensions and ranges to what PyTorch gave
# (reference/*.json, written by scripts/conformance-capture). What differs is listed, with its reason, in differences.txt; which
# models are refused, and by which error, in refused.txt. No more may differ or be refused, and no fewer.
set -eu
folder=$(cd "$(dirname "$0")/conformance" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for reference in "$folder"/reference/*.json; do
  name=$(basename "$reference" .json)
  atenon-capture --script "$folder/describe.py" "$folder/$name.py" > "$work/$name.json" 2> "$work/messages" || cat "$work/messages"
  /usr/bin/python3 -B "$folder/compare.py" "$reference" "$work/$name.json"
done > "$work/found.txt"
sed -n 's/^\([^:]*\): error: .*, Atenon \([A-Za-z0-9]*\): .*/\1: \2/p' "$work/found.txt" | sort > "$work/refused.txt"
grep -v '^#' "$folder/refused.txt" | sort | diff - "$work/refused.txt"
grep -v ': error: ' "$work/found.txt" | sort > "$work/differences.txt"
grep -v '^#' "$folder/differences.txt" | sort | diff - "$work/differences.txt"
