# Everything sets itself up: `make run` and `make test` need Python 3.11 or later and nothing else.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Some shells set it. Without compiled modules each process of the service takes half as long again to start, and pytest
# rewrites every assertion in every run.
unexport PYTHONDONTWRITEBYTECODE

# The release of Kubernetes before the newest, of which what can differ is tried unless KUBERNETES names the one to try.
OLDER := 1.36
TIMED := $(BIN)/python tests/timing.py
PYTEST := $(BIN)/pytest --durations=30 --durations-min=0.1

.PHONY: help venv run test check unit cluster-test dist programs releases figures cluster conformance fuzz fuzz-service faults optimal soak bench format chart upstream lock docs clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1|/' | column -t -s '|'

venv: $(READY) ## set up .venv with the locked dependencies
$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cks-admission needs Python 3.11 or later, $(PYTHON) is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(READY)

run: venv ## serve on https://127.0.0.1:9443 with certificates of its own and the default settings, no cluster needed
	$(BIN)/cks-admission serve --host 127.0.0.1 --health-host 127.0.0.1

test: venv ## everything: checks, unit tests, and the proofs on a real control plane
	@$(TIMED) "make test" $(MAKE) --no-print-directory check tests older

check: venv ## format, lint, types, import borders
	@$(TIMED) "make check" sh -exc "$(BIN)/ruff format --check .; $(BIN)/ruff check .; $(BIN)/mypy; $(BIN)/lint-imports"

# In one run, so that the fast tests use the processors while others wait for a control plane.
.PHONY: tests older
tests: venv
	$(TIMED) "tests" $(PYTEST) -n 3 --dist loadgroup tests
older: venv
	KUBERNETES=$(OLDER) $(TIMED) "what differs in $(OLDER)" $(PYTEST) -m differs tests/cluster

unit: venv ## the fast tests, no cluster
	$(TIMED) "make unit" $(PYTEST) -n 2 --dist loadgroup tests --ignore=tests/cluster --ignore=tests/chart

cluster-test: venv ## the chart, and the proofs through kubectl on a real kube-apiserver, or on another release: KUBERNETES=1.36 (programs built once into the user's cache)
	$(TIMED) "make cluster-test" $(PYTEST) -n 3 --dist loadgroup tests/chart tests/cluster
	$(if $(KUBERNETES),,@$(MAKE) --no-print-directory older)

dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
dist: venv ## the wheel in dist/, the same bytes from the same commit
	rm -rf dist
	$(BIN)/python -m hatchling build -t wheel

SITE := .venv-docs
docs: $(SITE)/.ready ## the documentation as a site in build/docs, every link and anchor checked: python3 -m http.server -d build/docs
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/python -m mkdocs build -f website/mkdocs.yml

$(SITE)/.ready: requirements/docs.txt requirements/mermaid.sha256
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	cd $(SITE) && bin/npm pack --silent mermaid@$(shell sed -E 's/.*mermaid-(.*)\.tgz/\1/' requirements/mermaid.sha256) >/dev/null
	cd $(SITE) && sha256sum --check --quiet ../requirements/mermaid.sha256 && tar -xzf mermaid-*.tgz package/dist/mermaid.min.js
	@touch $@

programs: venv ## the programs of the control plane, built once into the user's cache
	for release in $(or $(KUBERNETES),$(OLDER) ""); do KUBERNETES=$$release PYTHONPATH=tests $(BIN)/python -m cluster.toolchain || exit; done

releases: venv ## what differs between releases of Kubernetes, tried on each of them, and the table of docs/reference/compatibility.md made from it
	for release in $(OLDER) ""; do RECORD=1 KUBERNETES=$$release $(PYTEST) -m differs tests/cluster; done
	cd tests && PYTHONPATH=.. ../$(BIN)/python -m compatibility.page

figures: venv ## counts of the source, in all and by folder, and lower limits in tests/figures.json where a count fell
	$(BIN)/python tests/figures.py

cluster: venv ## a real control plane with the service registered, left running to play with; Ctrl-C ends it
	PYTHONPATH=tests $(BIN)/python -m cluster.demo

conformance: venv ## record again what kube-apiserver's CEL library answers to the cases in tests/conformance (needs go)
	cd tests && ../$(BIN)/python -m conformance.record --all

SEED ?= 1
CASES ?= 20000
fuzz: venv ## random CEL expressions, asked of kube-apiserver's library and of ours: SEED=7 CASES=20000 KUBERNETES=1.36 (needs go)
	cd tests && ../$(BIN)/python -m conformance.fuzz --seed $(SEED) --cases $(CASES) $(if $(KUBERNETES),--kubernetes $(KUBERNETES))

SECONDS ?= 60
fuzz-service: venv ## random reviews, policies, topologies and configurations, for the server and for the verbs: SEED=7 SECONDS=600
	cd tests && ../$(BIN)/python -m fuzzing --seed $(SEED) --seconds $(SECONDS)

ROWS ?=
faults: venv ## faults done to the real service, and the table of docs/reliability.md made from them, some 15 minutes: ROWS="stall gone"
	cd tests && ../$(BIN)/python -m faults $(if $(ROWS),--row $(ROWS))

CLUSTERS ?= 1000
optimal: venv ## the choice of domains against an exact solver, on random small clusters: CLUSTERS=1000
	CLUSTERS=$(CLUSTERS) $(BIN)/pytest tests/policies/topology/test_optimal.py

HOURS ?= 1
soak: venv ## a release at half of its capacity with reloads, rotations and leader changes, and its plot: HOURS=1
	cd tests && PYTHONPATH=.. ../$(BIN)/python -m faults.soak --hours $(HOURS)

PARTS ?=
bench: venv ## all benchmarks, about forty minutes, and the tables of docs/benchmarks.md made from them (needs go): PARTS="apiserver"
	$(BIN)/python -m benchmarks --write $(PARTS)

format: venv ## rewrite the code in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

chart: venv ## make again what in helm/ is made from other things: table of values, schema, webhook configurations, golden
	cd tests && ../$(BIN)/python -m chart.generate

upstream: venv ## what is pinned here and has a newer version on its registry (needs go)
	$(BIN)/python tests/upstream.py

lock: venv ## resolve pyproject.toml again into requirements/
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet \
		--upgrade --extra server --extra tracing pyproject.toml -o requirements/runtime.txt
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet \
		--upgrade -c requirements/runtime.txt --extra server --extra tracing --extra playground --group dev pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --quiet \
		--upgrade --group docs -o requirements/docs.txt

clean: ## remove what the targets made here (the built control plane stays in the user's cache)
	rm -rf .venv $(SITE) .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache .cks-admission build dist
