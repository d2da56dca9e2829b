# What the scripts here share. Sourced; leaves the shell in the repository's root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH=$PATH:/usr/sbin:/sbin

# What may outlive a run and serves every clone on this machine: the private engine's images.
CACHE=${SANDPIPER_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/sandpiper}

say() { printf 'sandpiper: %s\n' "$*" >&2; }

die() {
  say "$*"
  exit 1
}

# quietly COMMAND…: its output is shown only if it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || status=$?
  [[ $status -eq 0 ]] || tail -n 40 "$log" >&2
  rm -f "$log"
  return "$status"
}

# apt_install WHAT PACKAGE…: Debian packages, none of whose services is started or enabled.
apt_install() {
  local what=$1
  shift
  command -v apt-get >/dev/null || die "$what is missing: install it and try again (Debian: $*)"
  [[ $EUID -eq 0 ]] || die "$what is missing: run 'apt-get install $*' as root, or run this as root"
  say "installing $what: apt-get install $*"
  (
    mkdir -p "$CACHE"
    exec {lock}>"$CACHE/apt.lock"
    flock "$lock"
    no_service_starts
    export DEBIAN_FRONTEND=noninteractive
    quietly apt-get -q update
    quietly apt-get -q install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$@"
  ) || die "apt-get could not install $*"
}

# For the rest of this subshell dpkg starts no service. The answer binds only while we live, so a
# killed run leaves nothing behind that matters.
no_service_starts() {
  local policy=/usr/sbin/policy-rc.d
  [[ ! -e $policy ]] || return 0
  printf '#!/bin/sh\nkill -0 %s 2>/dev/null && exit 101\nexit 0\n' "$BASHPID" >"$policy"
  chmod 755 "$policy"
  # shellcheck disable=SC2064
  trap "rm -f $policy" EXIT
}

# disable_units UNIT…: what a package has just enabled for the next boot is disabled again.
disable_units() {
  [[ -d /run/systemd/system ]] || return 0
  systemctl disable --quiet "$@" 2>/dev/null || true
}

# port_taken PORT: whether something listens there on loopback.
port_taken() { (: >"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
