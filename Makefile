# make demo: the tab over demo_logs/.   make test: every check and every test.
# Both make what they need, in .venv and .venv-test, and do nothing twice.

# The first Python here that MindSpore 2.9 and the test tools have wheels for; override with PYTHON=...
PYTHON ?= $(shell for p in python3.11 python3.10 python3.12 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null && { echo $$p; break; }; done)
# The plugin itself also runs on 3.13.
DEMO_PYTHON ?= $(if $(PYTHON),$(PYTHON),python3)
PORT ?= 6006

DEMO = .venv
TEST = .venv-test
BENCH = .venv-bench
SOURCES := $(shell find tb_mindformers_plugin frontend -type f \
	-not -path '*/node_modules/*' -not -path '*/static/*' -not -path '*/__pycache__/*' 2>/dev/null)

# Debian keeps the part of Python that makes virtual environments in a package of its own.
define new-venv
	$(1) -c 'import ensurepip' 2>/dev/null || { \
	  echo "Installing the venv module of $(1) ..."; \
	  apt-get update -qq && apt-get install -y -qq "$$($(1) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" >/dev/null || { \
	  echo "$(1) cannot make virtual environments (Debian and Ubuntu: apt-get install python3-venv)"; exit 1; }; }; \
	$(1) -m venv $(2)
endef

.PHONY: help demo test unit checks frontend-checks chromium demo-logs compat compat-mindspore benchmarks clean

help:
	@echo "make demo       install into $(DEMO), start TensorBoard on demo_logs/ and print the tab's address"
	@echo "make test       install into $(TEST) (with MindSpore: some GB, minutes), run all checks and tests"
	@echo "make unit       only the tests that take seconds"
	@echo "make demo-logs  train the demo runs again (minutes)"
	@echo "make compat     the wheel on every Python and TensorBoard named in CONTRIBUTING.md"
	@echo "make compat-mindspore  the callback on every MindSpore and MindSpore Transformers named there (an hour, 4 GB)"
	@echo "make benchmarks the tables of benchmarks/, beside TensorBoard's own (half an hour, some GB)"
	@echo "                ARGS=\"--scale 0.05 --repeat 3\" for a quick try"
	@echo "make clean      remove both environments and what builds leave behind"

demo: $(DEMO)/installed
	@$(DEMO)/bin/tb-health demo --logdir demo_logs --port $(PORT)

$(DEMO)/installed: setup.py pyproject.toml $(SOURCES)
	@echo "Installing into $(DEMO) ..."
	@$(call new-venv,$(DEMO_PYTHON),$(DEMO))
	@$(DEMO)/bin/python -m pip install -qq --upgrade pip
	@$(DEMO)/bin/python -m pip install -qq .
	@rm -rf build
	@touch $@

# MindSpore's tests in a process of their own: it must be imported before anything that uses protobuf.
test: $(TEST)/installed chromium checks frontend-checks
	$(TEST)/bin/python -m pytest --ignore tests/mindspore --require e2e --require cluster --require packaging
	$(TEST)/bin/python -m pytest tests/mindspore --require mindspore

unit: $(TEST)/installed
	$(TEST)/bin/python -m pytest --ignore tests/mindspore -m "not (mindspore or e2e or packaging or processes or cluster)"

checks: $(TEST)/installed
	$(TEST)/bin/ruff check .
	$(TEST)/bin/ruff format --check .
	$(TEST)/bin/mypy

frontend-checks: $(TEST)/installed
	cd frontend && export PATH="$(CURDIR)/$(TEST)/bin:$$PATH" && \
	  npm ci --no-audit --no-fund && npm run lint && npm run typecheck && npm test

# Editable: only packaging itself makes it anew. The tab is built again when its sources change.
$(TEST)/installed: setup.py pyproject.toml requirements-test.txt $(shell find frontend -type f -not -path '*/node_modules/*' 2>/dev/null)
	@test -n "$(PYTHON)" || { echo "make test needs a Python from 3.10 to 3.12 (MindSpore has no wheel for a newer one)"; exit 1; }
	@echo "Installing into $(TEST) ..."
	@$(call new-venv,$(PYTHON),$(TEST))
	@$(TEST)/bin/python -m pip install -qq --upgrade pip
	@$(TEST)/bin/python -m pip install -qq -r requirements-test.txt
	@$(TEST)/bin/python -m pip install -qq --editable '.[dev]'
	@touch $@

# The browser tests drive the distribution's Chromium.
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || { \
	  echo "Installing Chromium ..."; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null || { \
	  echo "The browser tests need Chromium: install it (Debian and Ubuntu: apt-get install chromium)"; exit 1; }; }

demo-logs: $(TEST)/installed
	$(TEST)/bin/python demo_logs/make.py

benchmarks: $(BENCH)/installed chromium
	$(BENCH)/bin/python benchmarks/run.py $(ARGS)

$(BENCH)/installed: setup.py pyproject.toml benchmarks/requirements.txt $(SOURCES)
	@echo "Installing into $(BENCH) ..."
	@$(call new-venv,$(DEMO_PYTHON),$(BENCH))
	@$(BENCH)/bin/python -m pip install -qq --upgrade pip
	@$(BENCH)/bin/python -m pip install -qq . -r benchmarks/requirements.txt
	@rm -rf build
	@touch $@

compat-mindspore: $(TEST)/installed
	$(TEST)/bin/python tests/mindspore/compat.py

compat: $(TEST)/installed
	$(TEST)/bin/python tests/packaging/compat.py

clean:
	rm -rf $(DEMO) $(TEST) $(BENCH) build dist *.egg-info tb_mindformers_plugin/static frontend/node_modules
