#!/bin/bash
set -e
seq 1 200000 > "$REPORT"
