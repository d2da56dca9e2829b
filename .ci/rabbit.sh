# A RabbitMQ server for one command. Sourced by with-services.
#
# SANDPIPER_TEST_RABBIT names a server to use; tests in several processes want its virtual hosts gw0,
# gw1, … Otherwise a private node is started: its own name,
# ports, cookie and data, all in a temporary directory; no epmd, no management, nothing that stays.

use_rabbit() {
  if [[ -n ${SANDPIPER_TEST_RABBIT:-} ]]; then
    if rabbit_answers "$SANDPIPER_TEST_RABBIT"; then return; fi
    say "no RabbitMQ answers at SANDPIPER_TEST_RABBIT; using a private one"
  fi
  if [[ ! -x $(rabbit_server) ]]; then
    apt_install "RabbitMQ" rabbitmq-server
    disable_units rabbitmq-server.service epmd.service epmd.socket
  fi
  start_rabbit
}

# Debian's command in PATH insists on its own user and log folder; this is what it wraps.
rabbit_server() {
  local found
  for found in /usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server \
    /usr/lib/rabbitmq/bin/rabbitmq-server; do
    if [[ -x $found ]]; then
      echo "$found"
      return
    fi
  done
  command -v rabbitmq-server || echo /nowhere
}

rabbit_answers() {
  .venv/bin/python -c '
import sys, kombu
with kombu.Connection(sys.argv[1], connect_timeout=2) as connection:
    connection.ensure_connection(max_retries=1, timeout=4)' "$1" >/dev/null 2>&1
}

start_rabbit() {
  local port
  rabbit_dir=$(mktemp -d)
  for _ in 1 2 3 4 5; do
    port=$((20000 + RANDOM % 12000 / 3 * 3)) # three in a row: AMQP, Erlang's own, its name server
    if port_taken "$port"; then continue; fi
    launch_rabbit "$port"
    until rabbit_answers "amqp://guest:guest@127.0.0.1:$port//"; do
      kill -0 "$rabbit_pid" 2>/dev/null || continue 2
      sleep 0.2
    done
    export SANDPIPER_TEST_RABBIT=amqp://guest:guest@127.0.0.1:$port//
    return
  done
  tail -n 15 "$rabbit_dir/log" >&2
  die "rabbitmq-server does not start: start one yourself and set SANDPIPER_TEST_RABBIT to its URL"
}

# launch_rabbit PORT: the node, and Erlang's name server, which would stay behind as a daemon if
# the node started it. pdeathsig: both end with this shell, however that ends.
launch_rabbit() {
  local port=$1 server
  server=$(rabbit_server)
  stop_rabbit_processes
  printf '[].' >"$rabbit_dir/plugins"
  cat >"$rabbit_dir/rabbitmq.conf" <<END
log.console = true
log.console.level = error
log.file = false
disk_free_limit.absolute = 1MB
load_definitions = $rabbit_dir/definitions.json
END
  rabbit_definitions "$((2 * $(nproc)))" >"$rabbit_dir/definitions.json"
  local env=(
    PATH="$PATH" LANG=C.UTF-8 HOME="$rabbit_dir"
    ERL_EPMD_PORT=$((port + 2)) ERL_EPMD_ADDRESS=127.0.0.1
    RUNNING_UNDER_SYSTEMD=true # the virtual machine takes the shell's place, and its signals
    RABBITMQ_NODENAME="sandpiper-$port@localhost"
    RABBITMQ_NODE_IP_ADDRESS=127.0.0.1
    RABBITMQ_NODE_PORT="$port"
    RABBITMQ_DIST_PORT=$((port + 1))
    RABBITMQ_MNESIA_BASE="$rabbit_dir/data"
    RABBITMQ_LOG_BASE="$rabbit_dir"
    RABBITMQ_PID_FILE="$rabbit_dir/pid"
    RABBITMQ_FEATURE_FLAGS_FILE="$rabbit_dir/flags"
    RABBITMQ_ENABLED_PLUGINS_FILE="$rabbit_dir/plugins"
    RABBITMQ_CONFIG_FILE="$rabbit_dir/rabbitmq.conf"
    RABBITMQ_CONF_ENV_FILE=/dev/null
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+S 2:2 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}"
  )
  env -i "${env[@]}" setsid setpriv --pdeathsig TERM epmd >"$rabbit_dir/log" 2>&1 </dev/null &
  epmd_pid=$!
  env -i "${env[@]}" setsid setpriv --pdeathsig TERM "$server" \
    >>"$rabbit_dir/log" 2>&1 </dev/null &
  rabbit_pid=$!
}

# rabbit_definitions COUNT: the usual user, a virtual host for each process of the tests, and
# "limited", where queues are quorum queues unless asked otherwise, and what comes back to the
# worker's a second time is passed to the queue "dropped".
rabbit_definitions() {
  local hosts=(/) vhosts=() permissions=() host number
  for ((number = 0; number < $1; number++)); do hosts+=("gw$number"); done
  vhosts+=('{"name": "limited", "metadata": {"default_queue_type": "quorum"},
    "default_queue_type": "quorum"}')
  for host in "${hosts[@]}" limited; do
    if [[ $host != limited ]]; then vhosts+=("{\"name\": \"$host\"}"); fi
    permissions+=("{\"user\": \"guest\", \"vhost\": \"$host\",
      \"configure\": \".*\", \"write\": \".*\", \"read\": \".*\"}")
  done
  local IFS=,
  printf '{"users": [{"name": "guest", "password": "guest", "tags": ["administrator"]}],
    "vhosts": [%s], "permissions": [%s], "policies": [{"vhost": "limited", "name": "limit",
      "pattern": "^celery$", "apply-to": "queues", "definition": {"delivery-limit": 1,
      "dead-letter-exchange": "", "dead-letter-routing-key": "dropped"}}]}' "${vhosts[*]}" "${permissions[*]}"
}

stop_rabbit_processes() {
  local pid
  for pid in ${rabbit_pid:-} ${epmd_pid:-}; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" || true
  done
}

stop_rabbit() {
  stop_rabbit_processes
  [[ -z ${rabbit_dir:-} ]] || rm -rf "$rabbit_dir"
}
