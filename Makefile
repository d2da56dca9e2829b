# Everything here works on a fresh Debian machine, as root: each target sets up what it needs and
# stops what it started. `make help` says what there is; arguments go in ARGS.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo eval test test-cluster test-fast check types laws format lock bench image clean
ARGS ?=
SHARD ?=
BASE ?= $(SANDPIPER_BASE)
CORES := $(shell nproc)
# Many tests wait more than they work.
PROCESSES ?= $(shell echo $$(($(CORES) + 2)))
# Compile the tests once, not in every process of every run.
unexport PYTHONDONTWRITEBYTECODE

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo '  More arguments: make test ARGS="-k note", make demo ARGS="--model anthropic/claude-sonnet-5-5"'
	@echo '  A quarter of the tests: make test SHARD=1/4'
	@echo '  A pinned base:  make image BASE=debian:bookworm-slim@sha256:…'

demo: ## The whole story on bundled parts: a failing pipeline, the note, a reply
	@.ci/venv
	@.ci/with-services image -- .venv/bin/sandpiper demo $(ARGS)

eval: ## Play the bundled cases with scripted models, right and wrong: what the scoring makes of them
	@.ci/venv dev
	@.ci/with-services image -- .venv/bin/python -m tests.evaluated $(ARGS)

test: ## Every test, on real containers, real brokers and a real S3 server
	@.ci/venv dev
	@.ci/with-services image redis rabbit bwrap helm -- .venv/bin/pytest -n $(PROCESSES) \
	  $(if $(SHARD),--shard $(SHARD)) $(ARGS)

test-cluster: ## The sandbox's suites on a real cluster: KUBECONFIG=FILE IMAGE=what its nodes can pull
	@.ci/venv dev
	@: "$${KUBECONFIG:?name a kubeconfig}" "$${IMAGE:?name the sandbox image, as the nodes pull it}"
	SANDPIPER_TEST_CLUSTER="$$KUBECONFIG" SANDPIPER_TEST_IMAGE="$$IMAGE" .venv/bin/pytest -n $(PROCESSES) \
	  tests/contract tests/flow/test_pods.py -k 'kubernetes or test_pods' $(ARGS)

test-fast: ## The inner loop: what needs no services and is not slow, with fewer random inputs
	@.ci/venv dev
	.venv/bin/pytest -q -n $(CORES) --without-services --attack-inputs 100 -m 'not slow' \
	  --ignore tests/unit/simulators tests/unit tests/wire $(ARGS)

check: ## Format, lint, types, the structure of the house: what has changed since it passed; no services
	@.ci/venv dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	@$(MAKE) --no-print-directory --jobs 2 --output-sync types laws

types:
	@.ci/once types .venv/bin/mypy

laws:
	@.ci/once laws .venv/bin/pytest -q tests/law
	@# All tests are found, and compiled: else each process of `make test` would compile them.
	@.ci/once tests bash -c 'found=$$(.venv/bin/pytest -qq --collect-only) || { echo "$$found"; exit 1; }'

format: ## Format the code, mend what ruff can mend, make what is made from the settings
	@.ci/venv dev
	.venv/bin/ruff check --fix-only .
	.venv/bin/ruff format .
	.venv/bin/python -m tests.deploy.version
	.venv/bin/python -m worker.settings.reference
	.venv/bin/python -m tests.deploy.config_schema

lock: ## Choose what is in the image of Python packages, with hashes; ARGS=--upgrade: all anew
	@.ci/venv dev
	.venv/bin/python -m tests.deploy.lock $(ARGS)

bench: ## Measure: the benchmarks of tests/bench
	@.ci/venv dev
	@.ci/with-services image redis bwrap -- .venv/bin/python -m tests.bench $(ARGS)

image: export SANDPIPER_BASE := $(BASE)
image: ## Build the sandbox's and the worker's image, and list what is in them: build/*.cdx.json
	@.ci/venv dev
	@.ci/with-services image -- .venv/bin/python -m tests.deploy.image

clean: ## Remove what these commands made: .venv, caches, the private engine's images
	@.ci/clean
