# A Redis server for one command. Sourced by with-services.
#
# SANDPIPER_TEST_REDIS names a server to use; each process of the tests has a database of its own,
# from the one that is named upwards. One that merely happens to run on this machine is not
# touched, since the tests empty the database they are given: a private one is started on a free
# port instead, in memory only, and dies with this run.

use_redis() {
  if [[ -n ${SANDPIPER_TEST_REDIS:-} ]]; then
    if redis_answers "$SANDPIPER_TEST_REDIS"; then return; fi
    say "no Redis answers at SANDPIPER_TEST_REDIS; using a private one"
  fi
  if ! command -v redis-server >/dev/null; then
    apt_install "Redis" redis-server
    disable_units redis-server.service
  fi
  start_redis
}

redis_answers() {
  .venv/bin/python -c '
import sys, redis
redis.Redis.from_url(sys.argv[1], socket_timeout=2, socket_connect_timeout=2).ping()' \
    "$1" >/dev/null 2>&1
}

start_redis() {
  local port
  redis_dir=$(mktemp -d)
  for _ in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 12000)) # below the range that clients' ports are taken from
    if port_taken "$port"; then continue; fi
    # pdeathsig: it ends with this shell, however that ends.
    setsid setpriv --pdeathsig TERM redis-server --bind 127.0.0.1 --port "$port" --save '' \
      --databases 64 --appendonly no --dir "$redis_dir" >"$redis_dir/log" 2>&1 </dev/null &
    redis_pid=$!
    until port_taken "$port"; do
      kill -0 "$redis_pid" 2>/dev/null || continue 2
      sleep 0.02
    done
    export SANDPIPER_TEST_REDIS=redis://127.0.0.1:$port/0
    return
  done
  tail -n 15 "$redis_dir/log" >&2
  die "redis-server does not start: start one yourself and set SANDPIPER_TEST_REDIS to its URL"
}

stop_redis() {
  [[ -z ${redis_pid:-} ]] || kill "$redis_pid" 2>/dev/null || true
  [[ -z ${redis_pid:-} ]] || wait "$redis_pid" || true
  [[ -z ${redis_dir:-} ]] || rm -rf "$redis_dir"
}
