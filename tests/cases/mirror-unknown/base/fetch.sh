#!/bin/bash
set -e
curl --fail --silent --show-error https://packages.invalid/tool.tar.gz -o tool.tar.gz
