#!/usr/bin/env bash
# GSSR on a real GPU: bash benchmarks/on_gpu.sh OUTDIR (see benchmarks/README.md). Needs python3 >= 3.11 with numpy, torch and
# nvidia-ml-py, and nvidia-smi; on a node with AMD's GPUs (docs/amd.md) nothing but Python, and torch for the second half. No
# network, nothing installed. Under 8 minutes.
set -euo pipefail
python=${PYTHON:-python3}
[[ $# == 1 ]] || { echo "on_gpu: say where recordings and table go: bash benchmarks/on_gpu.sh OUTDIR" >&2; exit 2; }
out=$(realpath -m -- "$1")
cd "$(dirname "$0")/.."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
  { echo "on_gpu: $python is not Python 3.11 or newer: name one in PYTHON" >&2; exit 2; }
PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m benchmarks.on_gpu "$out"
