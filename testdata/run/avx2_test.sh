#!/usr/bin/env bash
# The kernels as they are on a CPU without AVX-512, whatever this one has: their loops are compiled once for each width.
set -euo pipefail
ONEDNN_MAX_CPU_ISA=AVX2 "$1"/tests/kernels_test --no-version
