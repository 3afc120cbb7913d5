# Two commands are all that a newcomer needs: `make demo` and `make test`.
# Both make their own virtual environment in .venv, from Python 3.11 or newer.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
# A worker that has ended its tests takes half of what another one has left. Neighbours stay together until then, so that
# what a module shares is started once. A third of what two workers take is waiting, for disks and for processes that start,
# so make test and make test-kafka have three.
WORKERS := 2
PYTEST = $(RUN)/python -m pytest -q -n $${PYTEST_WORKERS:-$(WORKERS)} --dist worksteal
# Two stamps: the demo installs what a user's program needs, everything else also what tests, Spark and Kafka need.
CORE := $(VENV)/.core
INSTALLED := $(VENV)/.installed
# Tools that are no part of Duramen and of its tests, in an environment of their own.
TOOLS := $(VENV)/tools

# By default pip chooses the newest versions that pyproject.toml allows. LOCKED=1 installs what requirements/*.lock name,
# file by file by its hash, as CI does.
PIP_INSTALL := $(RUN)/pip --quiet --disable-pip-version-check install
BY_HASH := --require-hashes --no-build-isolation --only-binary :all: --no-binary pyspark

# Python keeps what it has compiled, whatever the environment says. The tests start a thousand processes, and each of them
# would compile the product and its tests again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test coverage test-kafka test-spark test-languages test-spec test-image kafka check bench campaign format protos \
	docs lock audit sbom clean help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(CORE)  ## the whole database in a minute: one machine, then three nodes, a kill, a restore, a rebalance
	@$(RUN)/python examples/flights.py
	@$(RUN)/python examples/three_nodes.py

test test-kafka: WORKERS := 3
test: $(INSTALLED)  ## everything that can be tested here
	@$(PYTEST) $(ARGS)

coverage: $(INSTALLED)  ## make test with a report of lines and branches that no test runs: nearly twice the time
	@$(PYTEST) --cov --cov-report= $(ARGS)
	@$(RUN)/coverage report --skip-covered --skip-empty | tail -n 25

test-kafka: $(INSTALLED)  ## what needs real Kafka brokers: fetched with Maven, run by the tests
	@deploy/kafka/fetch || test $$? = 3
	@$(PYTEST) -m "kafka and not campaign" $(ARGS)
	@$(PYTEST) --log kafka tests/duramen --ignore tests/duramen/verification --ignore tests/duramen/testing $(ARGS)

test-spark: $(INSTALLED)  ## what needs a real Spark: Java 17 or newer
	@$(PYTEST) -m "spark and not kafka and not campaign" $(ARGS)

test-languages: $(INSTALLED)  ## programs in Go, Java and Node on duramen.v1.KV and RESP, built and run
	@$(RUN)/python -m pytest -q -m languages $(ARGS)

test-image: $(INSTALLED) $(TOOLS)/.installed  ## the image, made without a container engine: Linux, root, Debian's python3-venv
	@$(RUN)/python -m pytest -q -m image $(ARGS)

test-spec: $(INSTALLED)  ## the models of docs/spec, checked with TLC: Java 17 and Maven (about two minutes)
	@docs/spec/fetch || test $$? = 3
	@$(PYTEST) -m spec $(ARGS)

kafka: $(INSTALLED)  ## a Kafka broker on 127.0.0.1:9092 until Ctrl-C; BROKERS=3 runs three
	@deploy/kafka/fetch
	@$(RUN)/python deploy/kafka/start --brokers $(or $(BROKERS),1) $(ARGS)

check: $(INSTALLED)  ## lint, types, layers, generated code and pages
	@$(RUN)/ruff check .
	@$(RUN)/ruff format --check --quiet .
	@$(RUN)/mypy
	@$(RUN)/lint-imports --no-cache
	@scripts/check_protos.sh
	@scripts/check_pages.sh

bench: $(INSTALLED)  ## measure against peers and floors; results in bench/results
	@$(if $(LOCKED),:,$(PIP_INSTALL) -e '.[dev,bench]')
	@deploy/kafka/fetch || test $$? = 3
	@$(RUN)/python -m bench $(ARGS)

campaign: $(INSTALLED)  ## the fault tests at full length (hours)
	@deploy/kafka/fetch || test $$? = 3
	@docs/spec/fetch || test $$? = 3
	@DURAMEN_CAMPAIGN=1 $(RUN)/python -m pytest -q -n 2 -m campaign --timeout 3600 $(ARGS)

format: $(INSTALLED)  ## let ruff format and mend what it can
	@$(RUN)/ruff check --fix .
	@$(RUN)/ruff format .

protos: $(INSTALLED)  ## generate the code for the protos again
	@scripts/generate_protos.sh

docs: $(INSTALLED)  ## generate docs/API.md and docs/CLI.md again
	@scripts/generate_pages.sh

lock: $(TOOLS)/.installed  ## write requirements/*.lock again, after a change to pyproject.toml; UPGRADE=1 takes the newest
	@scripts/make_locks.sh $(TOOLS)/bin/uv $(if $(UPGRADE),--upgrade)

# Strict: a package that the database of advisories cannot be asked about is a failure.
audit: $(TOOLS)/.installed  ## ask PyPI for known weaknesses of what the image holds
	@$(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes -r requirements/runtime.lock

sbom:  ## what the image holds, as CycloneDX, in dist/sbom.cdx.json
	@rm -rf dist/image && PYTHON=$(PYTHON) deploy/image/build $(CURDIR)/dist/image
	@mv dist/image/sbom.cdx.json dist/sbom.cdx.json && rm -r dist/image && echo dist/sbom.cdx.json

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .data .kafka .spark .tlc .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(CORE): pyproject.toml $(if $(LOCKED),requirements/build.lock requirements/runtime.lock)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Duramen needs Python 3.11 or newer; this is $$($(PYTHON) --version). Set PYTHON=python3.11"; exit 1; }
	@test -x $(RUN)/python || $(PYTHON) -m venv $(VENV) \
		|| { echo "the venv module is missing: on Debian, apt-get install python3-venv"; exit 1; }
ifdef LOCKED
	@$(PIP_INSTALL) $(BY_HASH) -r requirements/build.lock -r requirements/runtime.lock
	@$(PIP_INSTALL) --no-deps --no-build-isolation -e .
else
	@$(PIP_INSTALL) -e .
endif
	@touch $@

$(INSTALLED): $(CORE) $(if $(LOCKED),requirements/dev.lock)
ifdef LOCKED
	@$(PIP_INSTALL) $(BY_HASH) -r requirements/dev.lock
else
	@$(PIP_INSTALL) -e '.[dev]'
endif
	@touch $@

$(TOOLS)/.installed: requirements/tools.lock
	@$(PYTHON) -m venv $(TOOLS)
	@$(TOOLS)/bin/pip --quiet --disable-pip-version-check install --require-hashes --only-binary :all: -r requirements/tools.lock
	@touch $@
