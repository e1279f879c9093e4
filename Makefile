# make demo   records a real command for 20 s and shows the page
# make test   runs every check, and every test that is not slow
# make test-slow    runs what takes about an hour: rounds of faults and races, hostile input
# make test-site    runs the tests that need a browser, other shells or the site's generator; says what it lacks of them
# make test-oldest  runs the tests of what uses other packages with the oldest versions that pyproject.toml allows
# make docs   makes a searchable site of the pages: build/site/index.html
# make man    writes the manual and the shells' completions below build/share
# make dist   builds sdist, wheel and gssr.pyz of the last commit into dist/, twice, and compares: the same commit, the same bytes
# make audit  asks whether vulnerabilities are known of what is installed; where nobody answers, it fails and says so
# All need Python >= 3.11 with its venv module and a package index; what they install goes into .venv, .venv-audit and .venv-oldest.

PYTHON ?= python3
BIN := .venv/bin
# Only wheels: installing one runs nothing of it.
WITHOUT_ASKING := PIP_DISABLE_PIP_VERSION_CHECK=1
PIP := $(WITHOUT_ASKING) $(BIN)/python -m pip install -qq --only-binary :all: --constraint constraints.txt
OLDEST := $(addprefix tests/,api backends convert foreign model render report store traces tui)
# As a path, not as a finder, whose imports take twice as long as the interpreter's start.
EDITABLE := --no-build-isolation --config-settings editable_mode=compat --editable

.PHONY: test types tests test-slow test-site test-oldest demo docs man dist audit clean
.DELETE_ON_ERROR:

test: .venv/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(MAKE) --no-print-directory --jobs 2 types tests

types: .venv/.test
	$(BIN)/mypy

tests: .venv/.compiled
	$(BIN)/python -m pytest -q -n auto --dist loadgroup -m 'not site and not slow'

test-slow: .venv/.test
	$(BIN)/python -m pytest -q -n auto --dist loadgroup -m slow

test-site: .venv/.test .venv/.docs
	$(BIN)/python -m pytest -q -m site

test-oldest: .venv-oldest/.test
	.venv-oldest/bin/python -m pytest -q -n auto --dist loadgroup -m 'not site and not slow' $(OLDEST)

# Once in a new environment, or each of pytest's processes would compile all tests by itself. What is wrong the tests tell.
.venv/.compiled: .venv/.test
	@echo "Compiling the tests"
	@$(BIN)/python -m pytest -q --collect-only -m 'not site and not slow' > /dev/null || true
	@touch $@

# A real command; where there is no GPU the synthetic backend stands in for eight of them.
demo: .venv/.run
	$(BIN)/gssr profile --backend synthetic:train:8 -t 100 -f -o demo.sql -- sh -c \
	  'for step in 1 2 3 4 5; do echo "step $$step: compressing for 4 s"; timeout 4 gzip -c < /dev/zero > /dev/null; done; exit 0'
	$(BIN)/gssr analyze --terminal -i demo.sql

# Every warning is an error: a link or an anchor that leads nowhere, a page that is in no menu.
docs: .venv/.docs
	@$(BIN)/sphinx-build -q -W --keep-going -c docs -d build/doctrees . build/site
	@echo "Open build/site/index.html"

man: .venv/.run
	$(BIN)/python docs/make_man.py build

dist: .venv/.run
	@$(BIN)/python .ci/dist.py dist

audit:
	@test -x .venv-audit/bin/pip-audit || { $(PYTHON) -m venv .venv-audit && \
	  $(WITHOUT_ASKING) .venv-audit/bin/python -m pip install -qq --only-binary :all: 'pip-audit>=2.9,<3'; }
	@.venv-audit/bin/python .ci/audit.py .venv-audit/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

# setuptools comes first, and pinned, so that building the package asks the index for nothing else.
.venv/.run: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "GSSR needs Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "Python's venv module is incomplete: install the Debian package python3-venv" >&2; exit 1; }
	@echo "Setting up .venv"
	@$(PYTHON) -m venv .venv
	@$(PIP) setuptools
	@$(PIP) $(EDITABLE) .
	@touch $@

.venv/.test: .venv/.run
	@echo "Adding the tools for the tests"
	@$(PIP) $(EDITABLE) '.[test]'
	@touch $@

.venv/.docs: .venv/.run
	@echo "Adding the tools for the site"
	@$(PIP) $(EDITABLE) '.[docs]'
	@touch $@

.venv-oldest/.test: pyproject.toml constraints-min.txt
	@echo "Setting up .venv-oldest"
	@$(PYTHON) -m venv .venv-oldest
	@$(WITHOUT_ASKING) .venv-oldest/bin/python -m pip install -qq --only-binary :all: --requirement constraints-min.txt
	@$(WITHOUT_ASKING) .venv-oldest/bin/python -m pip install -qq --only-binary :all: --no-deps $(EDITABLE) .
	@touch $@

clean:
	rm -rf .venv .venv-audit .venv-oldest build dist *.egg-info demo.sql demo.sql.d demo.sql-wal demo.sql-shm
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
