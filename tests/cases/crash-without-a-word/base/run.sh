#!/bin/bash
echo "starting the simulator"
bash -c 'kill -SEGV $$'
