# A Docker engine for one command. Sourced by with-services.
#
# The engine that answers already is used. Otherwise a private one is started: own data, own socket,
# no bridge and no firewall rules (sandboxes have no network), so it disturbs no other. All runs on
# this machine share it; each holds the `users` lock for as long as it lives, and the one that finds
# itself the last stops it. `gate` guards starting and stopping. The kernel drops the locks of a
# killed run, so the next run to end cleans up after it.

DATA=$CACHE/docker
RUN=/run/sandpiper-$(cksum <<<"$CACHE" | cut -d' ' -f1)

use_engine() {
  if engine_answers; then return; fi
  [[ -z ${DOCKER_HOST:-} ]] || say "no Docker engine answers at $DOCKER_HOST; using a private one"
  unset DOCKER_TLS_VERIFY DOCKER_CERT_PATH
  need_dockerd
  join_engine
  export DOCKER_HOST=unix://$RUN/docker.sock
}

# engine_answers [URL]: the one that the Docker SDK would talk to by itself, or the one at URL.
engine_answers() {
  DOCKER_HOST=${1:-${DOCKER_HOST:-}} .venv/bin/python -c \
    'import docker; docker.from_env(timeout=5).ping()' >/dev/null 2>&1
}

need_dockerd() {
  local units=(docker.service docker.socket)
  [[ $EUID -eq 0 ]] ||
    die "no Docker engine answers, and only root can start one: start Docker (and set DOCKER_HOST if" \
      "it is not at the usual place), or run this as root"
  if command -v dockerd >/dev/null; then return; fi
  command -v containerd >/dev/null || units+=(containerd.service)
  apt_install "a Docker engine" docker.io
  disable_units "${units[@]}"
}

join_engine() {
  mkdir -p "$DATA" "$RUN"
  chmod 700 "$RUN"
  exec {gate}>"$RUN/gate" {users}>"$RUN/users"
  flock "$gate"
  flock --shared "$users"
  if ! engine_answers "unix://$RUN/docker.sock"; then start_engine; fi
  flock --unlock "$gate"
}

leave_engine() {
  [[ -n ${users:-} ]] || return 0
  flock "$gate"
  flock --unlock "$users"
  if flock --nonblock "$users"; then stop_engine; fi
  exec {users}>&- {gate}>&-
  unset users gate
}

start_engine() {
  stop_engine # one that hangs, and what a killed one left
  say "starting a private Docker engine"
  setsid dockerd --data-root "$DATA" --exec-root "$RUN/exec" --pidfile "$RUN/pid" \
    --host "unix://$RUN/docker.sock" --bridge=none --iptables=false --ip6tables=false \
    --ip-forward=false --ip-masq=false --userland-proxy=false --log-level=warn \
    >"$RUN/log" 2>&1 </dev/null {gate}>&- {users}>&- &
  local pid=$! deadline=$((SECONDS + 60))
  until [[ -S $RUN/docker.sock ]] && engine_answers "unix://$RUN/docker.sock"; do
    if ! kill -0 "$pid" 2>/dev/null || ((SECONDS > deadline)); then
      tail -n 15 "$RUN/log" >&2
      die "dockerd does not start on this machine: start a Docker engine yourself, set DOCKER_HOST"
    fi
    sleep 0.05
  done
  remove_containers
}

# Whatever is in an engine that has just been started is left from a run that was killed.
remove_containers() {
  DOCKER_HOST=unix://$RUN/docker.sock .venv/bin/python -c '
import docker
for container in docker.from_env().containers.list(all=True):
    container.remove(force=True, v=True)'
}

stop_engine() {
  local pid='' deadline=$((SECONDS + 30))
  if [[ -f $RUN/pid ]]; then pid=$(<"$RUN/pid"); fi
  if [[ -n $pid && $(cat "/proc/$pid/comm" 2>/dev/null) == dockerd ]]; then
    kill "$pid"
    while [[ -e /proc/$pid ]] && ((SECONDS < deadline)); do sleep 0.05; done
    [[ ! -e /proc/$pid ]] || kill -KILL "$pid" || true
  fi
  unmount_under "$RUN"
  unmount_under "$DATA"
  rm -rf "$RUN/exec" "$RUN/pid" "$RUN/docker.sock"
}

# dockerd leaves mounts behind: of its data, of a network namespace; a killed one also of containers.
unmount_under() {
  local mount
  awk -v top="$1/" 'index($2 "/", top) == 1 {print $2}' /proc/mounts | sort -r |
    while read -r mount; do umount --lazy "$mount" || true; done
}
