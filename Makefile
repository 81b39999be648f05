# make run and make test set everything up by themselves; `make help` lists the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
PYTEST := $(BIN)/python -m pytest -n $(WORKERS)
# To look for them among all tests would take as long as ten of them.
SPARK_TESTS = tests/spark $(shell grep -rl --include='test_*.py' --exclude-dir=spark 'mark\.spark' tests)
SOURCES := $(shell find src -name '*.py' -o -path '*/static/*' -type f)

.DEFAULT_GOAL := help
# All that `make help` lists.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*[#][#] .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

run: build ## set up and start the broker with its web page, and a shop whose orders run through Spark
	$(BIN)/python examples/demo/run.py

test: build check test-interpreted test-compiled test-spark ## set up, check, and run the suite interpreted and compiled

test-interpreted: build ## the suite on the source as it stands
	PYTHONPATH=$(CURDIR)/src $(PYTEST) -m 'not spark'

test-compiled: build ## the suite on the installed, compiled package
	WARREN_EXPECT=$$($(BIN)/python -c 'import setup; print("pure" if setup.reason_to_stay_pure() else "compiled")') $(PYTEST) -m 'not spark'

test-spark: build build/spark-classes.jsa ## what needs a Spark session or RabbitMQ for it, once
	$(PYTEST) -m spark $(SPARK_TESTS)

# Tests start Java some twenty times; with its classes in one file each start takes a third of the time.
build/spark-classes.jsa: $(VENV)/.dependencies | $(VENV)/.built
	rm -f $@
	-$(BIN)/python -m tests.quick_spark $@

ROUNDS ?= 1000
STATES ?= 500000
POINTS ?= 0
CYCLES ?= 20
MESSAGES ?= 5000000
KILLS ?= 30
BOUNCES ?= 100

# Each prints a JSON line, and goes on to the next whatever the one before has found.
faults: build ## kill, starve and fail the compiled broker at length; ROUNDS, POINTS, CYCLES, MESSAGES, STATES, KILLS, BOUNCES
	@failed=0; for test in "kill9 --rounds $(ROUNDS)" "syscalls --sample $(POINTS)" "disk_full --cycles $(CYCLES)" \
		"backlog --messages $(MESSAGES)" "crash_states --states $(STATES)" "stream_states --states $(STATES)" \
		"spark_kills --kills $(KILLS) --bounces $(BOUNCES) --workers $(BOUNCES) --brokers $(KILLS)"; do \
		echo "== $$test"; $(BIN)/python -m tests.faults.$$test || failed=1; done; exit $$failed

check: $(VENV)/.dependencies ## style, types and layout
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy src tests bench tools
	PYTHONPATH=$(CURDIR)/src $(BIN)/python -m pytest -q tests/meta

methods: ## src/warren/amqp/methods.py anew, from the table in tools/amqp_methods.py
	$(PYTHON) -m tools.amqp_methods

clients: build ## six clients' own test suites, next to RabbitMQ's figures (about 20 minutes)
	$(BIN)/python -m tests.clients.suites

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

bench-replay: build ## publishing to a stream that ten consumers replay (about 2 minutes)
	$(BIN)/python -m bench.replay

bench-spark: build ## the Spark source beside prebuilt Arrow, and the sink: bench/results/spark.json (about 5 minutes)
	$(BIN)/python -m bench.spark

bench-jobs: build ## a million messages archived and replayed, and compared: bench/results/jobs.json (about 3 minutes)
	$(BIN)/python -m bench.jobs

build: $(VENV)/.built ## .venv with the compiled package and all extras

$(VENV)/.dependencies: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Warren needs Python 3.11 or later, found %s" % sys.version)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -c "$$LIST_REQUIREMENTS" <pyproject.toml >$(VENV)/requirements.txt
	$(BIN)/python -m pip install --quiet --requirement $(VENV)/requirements.txt
	touch $@

# Without isolation and with build/ kept, only C files that changed are compiled again. A module that was deleted
# from src/ must not live on in the installation, so then the copies of all of them go.
$(VENV)/.built: $(VENV)/.dependencies setup.py $(SOURCES)
	@mkdir -p build && find src -name '*.py' | sort >build/modules.new
	@cmp -s build/modules build/modules.new || rm -rf build/lib*
	@mv build/modules.new build/modules
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --force-reinstall .
	touch $@

define LIST_REQUIREMENTS
import sys, tomllib
project = tomllib.load(sys.stdin.buffer)
lists = [project["build-system"]["requires"], project["project"]["dependencies"]]
lists += project["project"]["optional-dependencies"].values()
print("\n".join(line for lines in lists for line in lines))
endef
export LIST_REQUIREMENTS

clean: ## remove what the above made
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
