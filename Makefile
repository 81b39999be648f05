# make run and make test set everything up by themselves; `make help` lists the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two more than the cores of a small machine: a good part of the tests waits for brokers, browsers, Java and clocks.
WORKERS ?= 4
PYTEST := $(BIN)/python -m pytest --durations=15 --durations-min=5
# $(call tests,environment,arguments): in continuous integration the few that fail get a second try, alone.
tests = $(1) $(PYTEST) -n $(WORKERS) $(2) || { [ $$? -eq 1 ] && [ -n "$$CI" ] && $(1) $(BIN)/python -m tests.again $(2); }
SOURCES := $(shell find src -name '*.py' -o -path '*/static/*' -type f)
# Why nothing can be compiled here; empty where it can. Asked only when the environment is there.
PURE = $(shell $(BIN)/python -c 'import setup; print(setup.reason_to_stay_pure() or "")')
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check

# Else every worker, and every pytest that a test starts, compiles all of the tests and plugins anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
CHECKS := check-style check-types check-layout
together = $(MAKE) --no-print-directory --jobs=4 --output-sync=line
# All that `make help` lists, and the parts of a check.
.PHONY: $(CHECKS) $(shell sed -n 's/^\([a-z-]*\):.*[#][#] .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

# Until all is built the broker runs from its source, and what it and its demo lack is made beside it.
run: $(VENV)/.broker ## start the broker with its web page at once, and a shop whose orders run through Spark when that is there
	@if $(MAKE) --question build 2>/dev/null >&2; then exec $(BIN)/python examples/demo/run.py; else \
		PYTHONPATH=$(CURDIR)/src exec $(BIN)/python examples/demo/run.py \
			'$(MAKE) --no-print-directory $(VENV)/.spark' '$(MAKE) --no-print-directory build'; fi

# Translating to C takes one core, and types are checked on the other. What the check has run is not run again.
test: $(VENV)/.dependencies ## set up, check, and run the suite on what is installed: compiled where that is possible
	@$(together) build $(CHECKS)
	@$(MAKE) --no-print-directory test-installed LEFT_OUT=--ignore=tests/meta

test-installed: build build/spark-classes.jsa ## the suite on the installed package, compiled if there is a C compiler
	$(call tests,WARREN_EXPECT=$(if $(PURE),pure,compiled),-m 'not long' $(LEFT_OUT))

# The file whose tests have the same name, from where it is told why they are run by themselves.
SAME_NAMES = $(shell sed -n 's/^SAME_NAMES.*"\(.*\)"/\1/p' tests/conftest.py)
test-long: build build/spark-classes.jsa ## what takes long: kills and failures by the hundred, clients' own suites, a RabbitMQ beside it
	$(call tests,WARREN_EXPECT=$(if $(PURE),pure,compiled),-m long --ignore=$(SAME_NAMES))
	$(call tests,WARREN_EXPECT=$(if $(PURE),pure,compiled),-m long $(SAME_NAMES))

MARKS ?= not spark
test-interpreted: build ## the suite on the source as it stands
	$(call tests,PYTHONPATH=$(CURDIR)/src,-m '$(MARKS)' $(LEFT_OUT))

# What plays with whole processes, and takes longest, is tried once: on what users run. And what the check has run.
TRIED := cli clients differential docs faults meta packaging page perf
test-both: test test-long ## make test, what takes long, and what is in one process interpreted: what continuous integration runs
	$(if $(PURE),@echo 'interpreted is what was tested: nothing can be compiled because $(PURE)',\
		$(MAKE) test-interpreted MARKS='not spark and not long' LEFT_OUT='$(TRIED:%=--ignore=tests/%)')

# Tests start Java some twenty times; with its classes in one file each start takes a third of the time.
build/spark-classes.jsa: $(VENV)/.dependencies | $(VENV)/.built
	rm -f $@
	-$(BIN)/python -m tests.quick_spark $@

ROUNDS ?= 1000
STATES ?= 500000
POINTS ?= 0
IMAGES ?= 1000
CYCLES ?= 20
SEEDS ?= 200000
MESSAGES ?= 5000000
INPUTS ?= 20000000
SESSIONS ?= 100000
KILLS ?= 30
BOUNCES ?= 100
CUT ?= 10

# Each prints a JSON line, and goes on to the next whatever the one before has found.
faults: build ## kill, starve and fail the compiled broker at length; ROUNDS, POINTS, IMAGES, CYCLES, MESSAGES, INPUTS, SESSIONS, STATES, KILLS, BOUNCES, SEEDS, CUT
	@failed=0; for test in "kill9 --rounds $(ROUNDS)" "syscalls --sample $(POINTS)" "power_cuts --images $(IMAGES)" "disk_full --cycles $(CYCLES)" \
		"memory_wall --cycles $(CYCLES)" \
		"backlog --messages $(MESSAGES)" stalls "codec --inputs $(INPUTS)" "hostile sessions --count $(SESSIONS)" \
		"hostile sockets" "crash_states --states $(STATES)" "stream_states --states $(STATES)" \
		"spark_kills --kills $(KILLS) --bounces $(BOUNCES) --workers $(BOUNCES) --brokers $(KILLS)" "migration"; do \
		echo "== $$test"; $(BIN)/python -m tests.faults.$$test || failed=1; done; \
		for test in "simulation --seeds $(SEEDS)" "cluster_faults --seconds $(CUT)" "cluster_kills --rounds $(KILLS)"; do \
		echo "== $$test"; $(BIN)/python -m tests.replication.$$test || failed=1; done; exit $$failed

SAMPLE ?= 60

mutants: build ## whether the tests would notice: small changes to the files that need it most, on the source; SAMPLE
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(BIN)/python -m tools.mutants --sample $(SAMPLE)

check: $(VENV)/.dependencies ## style, types and layout
	@$(together) $(CHECKS)

check-style: $(VENV)/.dependencies
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

check-types: $(VENV)/.dependencies
	$(BIN)/mypy src tests bench tools

check-layout: $(VENV)/.dependencies
	PYTHONPATH=$(CURDIR)/src $(BIN)/python -m pytest -q tests/meta

docs: ## the pages of docs/ as a site in build/site, to be read without a network
	@test -x build/docs-venv/bin/mkdocs || { echo "installing what makes the site"; $(PYTHON) -m venv build/docs-venv \
		&& build/docs-venv/bin/pip install -q 'mkdocs<2' 'mkdocs-material>=9.5,<10'; }
	@NO_MKDOCS_2_WARNING=1 build/docs-venv/bin/mkdocs build -q -f docs/mkdocs.yaml && echo "build/site/index.html"

methods: ## src/warren/amqp/methods.py anew, from the table in tools/amqp_methods.py
	$(PYTHON) -m tools.amqp_methods

clients: build ## six clients' own test suites, next to RabbitMQ's figures (about 20 minutes)
	$(BIN)/python -m tests.clients.suites

clients-cluster: build ## the same through a node that follows, of three (needs etcd)
	$(BIN)/python -m tests.clients.suites --cluster

screenshots: build ## the pictures of docs/web-page.md anew, from a live broker (needs Chromium)
	$(BIN)/python -m tests.page.screenshots

bench: build ## Warren beside RabbitMQ: bench/results/ (about 15 minutes)
	$(BIN)/python -m bench.run

bench-quick: build ## the same, once and shortly (under 2 minutes)
	$(BIN)/python -m bench.run --quick

flame: build ## where the compiled broker's time goes: docs/images/flame.svg
	$(BIN)/python -m bench.flame

bench-path: build ## the message path on Spark, beside a plain join and one process: bench/results/path.json
	$(BIN)/python -m bench.path

bench-pipeline: build ## how long a message takes through a pipeline: bench/results/pipeline.json (about 3 minutes)
	$(BIN)/python -m bench.pipeline

bench-replay: build ## publishing to a stream that ten consumers replay (about 2 minutes)
	$(BIN)/python -m bench.replay

bench-mirrors: build ## a leader and a follower beside a single node: bench/results/mirrors.json (about 4 minutes, needs etcd)
	$(BIN)/python -m bench.mirrors

bench-spark: build ## the Spark source beside prebuilt Arrow, and the sink: bench/results/spark.json (about 5 minutes)
	$(BIN)/python -m bench.spark

bench-jobs: build ## a million messages archived and replayed, and compared: bench/results/jobs.json (about 3 minutes)
	$(BIN)/python -m bench.jobs

build: $(VENV)/.built ## .venv with the compiled package and all extras

cluster: build ## an etcd and three mirrored nodes with traffic, to kill one and watch (needs etcd)
	$(BIN)/python examples/cluster/run.py

wheel: $(VENV)/.built ## dist/*.whl, which needs no compiler to install, tried in an environment of its own
	@$(if $(PURE),echo 'a wheel cannot be compiled because $(PURE)' >&2; exit 1,mkdir -p dist && rm -f dist/*.whl)
	@echo "making a wheel for every Linux that is as new as this one"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist build/wheel/*.whl
	@$(BIN)/python -m tests.try_wheel dist/*.whl

executors: build ## dist/warren-executors.tar.gz: what executors of a Spark cluster need (docs/spark-cluster.md)
	@mkdir -p dist && $(BIN)/python -m warren.spark.executors dist/warren-executors.tar.gz

fresh: ## make run and make test in a bare Debian 12 without a compiler or Java (needs root, debootstrap, 20 minutes); SUITE=forky for the newest Python
	tests/fresh_root.sh

# In steps, so that a broker need not wait for Spark: 30 MB for the broker, 1 GB for Spark, 0.5 GB for the tests.
$(VENV)/.broker: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Warren needs Python 3.11 or later, found %s" % sys.version)'
	@echo 'setting up $(VENV): what the broker needs (some seconds)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(call install,build-minimum broker)
	@# The name before warrenmq: its compiled files would stay and hide newer ones.
	@$(PIP) uninstall --yes warren 2>/dev/null
	@WARREN_PURE=1 $(PIP) install --no-build-isolation --no-deps --force-reinstall .
	@touch $@

$(VENV)/.spark: $(VENV)/.broker
	@echo 'setting up $(VENV): Spark, and a Java where there is none (a minute or two)'
	@$(call install,broker spark)
	@touch $@

$(VENV)/.dependencies: $(VENV)/.spark
	@echo 'setting up $(VENV): what compiles and tests (a minute)'
	@$(call install,all)
	@touch $@

# With build/ kept, only C files that changed are compiled again. A module that was deleted from src/ must not live on
# in the installation, so then the copies of all of them go.
$(VENV)/.built: $(VENV)/.dependencies setup.py $(SOURCES)
	@mkdir -p build && find src -name '*.py' | sort >build/modules.new
	@cmp -s build/modules build/modules.new || rm -rf build/lib*
	@mv build/modules.new build/modules
	@echo 'building Warren (3 minutes where it is compiled for the first time)'
	@rm -rf build/wheel && mkdir build/wheel
	@$(BIN)/python -c 'from setuptools.build_meta import build_wheel; build_wheel("build/wheel", {"quiet": 1})'
	@$(PIP) install --no-deps --force-reinstall build/wheel/*.whl
	@touch $@

# What was interrupted may have left halves of packages, which pip would take for whole ones: then all come anew.
install = $(BIN)/python -c "$$LIST_REQUIREMENTS" $(1) <pyproject.toml >$(VENV)/requirements.txt && \
	anew=$$(test ! -e $(VENV)/.unfinished || echo --ignore-installed) && touch $(VENV)/.unfinished && \
	$(PIP) install --use-pep517 $$anew --requirement $(VENV)/requirements.txt && rm $(VENV)/.unfinished

define LIST_REQUIREMENTS
import sys, tomllib
whole = tomllib.load(sys.stdin.buffer)
lists = {"build": whole["build-system"]["requires"], "broker": whole["project"]["dependencies"]}
lists["build-minimum"] = [line for line in lists["build"] if line.startswith("setuptools")]
lists |= whole["project"]["optional-dependencies"]
wanted = lists if sys.argv[1:] == ["all"] else sys.argv[1:]
print("\n".join(line for name in wanted for line in lists[name]))
endef
export LIST_REQUIREMENTS

clean: ## remove what the above made
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
