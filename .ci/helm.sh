# Helm for the chart's tests. Sourced by with-services.
#
# The one that is installed is used. Where there is a Go toolchain instead, one is built, once for
# this machine: behind the command, and nearly only while nothing else wants the cores, since it takes
# some minutes of two. The tests that need it run last, wait for it, and let it have its share of the
# cores by then: FILE.building holds its process group. Without either they are skipped.

HELM_VERSION=v3.19.0

use_helm() {
  local folder=$CACHE/helm-$HELM_VERSION
  if [[ -n ${SANDPIPER_TEST_HELM:-} ]]; then return; fi
  if SANDPIPER_TEST_HELM=$(command -v helm); then
    export SANDPIPER_TEST_HELM
    return
  fi
  export SANDPIPER_TEST_HELM=$folder/helm
  if [[ -x $SANDPIPER_TEST_HELM ]]; then return; fi
  if ! command -v go >/dev/null; then
    say "no helm, and no Go toolchain to build it with: the tests of the chart are skipped"
    unset SANDPIPER_TEST_HELM
    return
  fi
  mkdir -p "$folder"
  exec {helm_lock}>"$folder/lock"
  if flock --nonblock "$helm_lock"; then
    say "building helm $HELM_VERSION behind the tests"
    touch "$SANDPIPER_TEST_HELM.building"
    build_helm "$folder" >"$SANDPIPER_TEST_HELM.log" 2>&1 </dev/null &
    helm_pid=$!
  fi
  exec {helm_lock}>&- # the build holds the lock for as long as it runs
}

# Everything that Go leaves is in the folder, and goes when the program is there.
build_helm() {
  local folder=$1 minor=k8s.io/client-go status=0
  local version=helm.sh/helm/v3/pkg/chartutil
  GOPATH=$folder/go GOCACHE=$folder/cache GOBIN=$folder/bin GOFLAGS=-modcacherw \
    setsid nice -n 19 go install -trimpath -ldflags "-s -w -X $version.k8sVersionMajor=1 -X $version.k8sVersionMinor=34" \
    "helm.sh/helm/v3/cmd/helm@$HELM_VERSION" &
  echo $! >"$folder/helm.building"
  wait $! || status=$?
  [[ $status -ne 0 ]] || mv "$folder/bin/helm" "$folder/helm"
  rm -rf "$folder/go" "$folder/cache" "$folder/bin" "$folder/helm.building"
  return "$status"
}

# A build that is not done is given up: the next run begins it anew.
stop_helm() {
  [[ -n ${helm_pid:-} ]] || return 0
  if kill -0 "$helm_pid" 2>/dev/null; then
    kill -- "-$(<"$SANDPIPER_TEST_HELM.building")" 2>/dev/null || true
    rm -f "$SANDPIPER_TEST_HELM.building"
  fi
  wait "$helm_pid" 2>/dev/null || true
}
