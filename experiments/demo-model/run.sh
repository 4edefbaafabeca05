#!/bin/sh
# Trains for MINUTES on this machine's GPU and leaves model.pth, curve.jsonl and samples.md in OUTDIR:
#   run.sh OUTDIR MINUTES [OPTION OF train.py]...
# The corpus and the scripts lie beside this file; PyTorch 2.6 or newer and its Triton are there already.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=$1
minutes=$2
shift 2
mkdir -p "$out"
PYTHONUNBUFFERED=1 exec python3 "$here/train.py" "$here/corpus.jsonl.xz" --out "$out" --minutes "$minutes" "$@"
