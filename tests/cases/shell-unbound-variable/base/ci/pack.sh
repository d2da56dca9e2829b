#!/bin/bash
set -euo pipefail
echo "packing release"
