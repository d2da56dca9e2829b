#!/bin/bash
set -euo pipefail
echo "packing ${RELEASE_SUFFIX}"
