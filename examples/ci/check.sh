#!/bin/sh
# Runs a model on the simulated accelerator and fails if it got slower or gives other integers than the report kept
# beside it. What CI runs, anybody can run: examples/ci/check.sh MODEL [BASELINE.json]
#
# The first run keeps the baseline (commit it). A change for the better, or one that is meant, is kept by removing the
# file and running again. TILEWRIGHT names the command, CONFIG the accelerator; PERCENT is the growth that is accepted.
set -eu
model=$1
baseline=${2:-${model%.*}.baseline.json}
tilewright=${TILEWRIGHT:-tilewright}
out=${OUT:-tilewright-report}
mkdir -p "$out"

$tilewright run "$model" --config "${CONFIG:-pynq-z2}" --inputs 4 --seed 0 --check \
  --report "$out/report.json" --html "$out/report.html"
if [ ! -e "$baseline" ]; then
  cp "$out/report.json" "$baseline"
  echo "kept $baseline: commit it"
  exit 0
fi
$tilewright compare "$baseline" "$out/report.json" --most "${PERCENT:-1}" --markdown "$out/summary.md"
