#!/usr/bin/env bash
# Fetches the pinned uPlot from the npm registry and puts its two files and its licence here.
#   results/report/vendor/fetch.sh
set -euo pipefail
cd "$(dirname "$0")"
VERSION=1.6.32
SHA512=KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
curl -fsSL "https://registry.npmjs.org/uplot/-/uplot-$VERSION.tgz" -o "$folder/uplot.tgz"
found=$(openssl dgst -sha512 -binary "$folder/uplot.tgz" | base64 -w0)
if [ "$found" != "$SHA512" ]; then
  echo "uplot-$VERSION.tgz has sha512 $found, expected $SHA512: nothing was changed" >&2
  exit 1
fi
tar -xzf "$folder/uplot.tgz" -C "$folder"
cp "$folder/package/dist/uPlot.iife.min.js" "$folder/package/dist/uPlot.min.css" .
cp "$folder/package/LICENSE" LICENSE.uPlot
echo "uPlot $VERSION"
