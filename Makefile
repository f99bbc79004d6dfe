# Every target sets itself up: the first one creates .venv and installs the pinned versions into it.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
# Root installs packages by itself.
SUDO := $(shell test "$$(id -u)" = 0 || command -v sudo)
# Silences a note about versions of mkdocs to come.
export NO_MKDOCS_2_WARNING := 1

.PHONY: demo test test-all browser-test lint docs bench clean

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,train,bench,docs,serve,ray,parquet]'
	$(BIN)/elgo warm-up  # compiles the kernels, once
	$(BIN)/python -c 'from elgo.train.log_prob import warm_up; warm_up()'  # and those of training
	touch $@

demo: $(INSTALLED)  ## solve the bundled instances, print a table, leave demo/*.png
	$(BIN)/elgo solve examples --plot demo

test: lint  ## style, types, layout, spelling, and all tests that are not slow
	$(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=

test-all: $(INSTALLED)  ## what `make test` leaves out: slow tests, the site, the package; then the coverage of both
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'slow and not browser' --cov --cov-append --cov-report=
	$(BIN)/python -m mkdocs build --strict --quiet
	rm -rf dist && $(BIN)/python -m build --no-isolation --outdir dist . > /dev/null
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m coverage report --skip-covered --sort=cover | tail -n 25

browser-test: $(INSTALLED)  ## the page of `elgo serve` in Chromium, which is installed where apt can do it
	command -v chromium chromedriver > /dev/null || ! command -v apt-get > /dev/null || \
		{ $(SUDO) apt-get update -qq && $(SUDO) apt-get install -y -qq chromium chromium-driver; } || echo "chromium cannot be installed"
	! command -v npm > /dev/null || npm install --silent --no-save --prefix .venv/node axe-core@4.14.0 || echo "axe-core cannot be installed"
	$(BIN)/python -m pytest -n 0 -m browser -rs tests/serve

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy elgo
	$(BIN)/codespell
	$(BIN)/lint-imports
	$(BIN)/python tools/check_sizes.py
	test ! -x $(BIN)/hadolint || $(BIN)/hadolint Dockerfile  # it exists for Linux only

docs: $(INSTALLED)  ## the site, in site/index.html
	$(BIN)/python -m mkdocs build --strict

bench: $(INSTALLED)  ## decoding speed against a straightforward decoder
	$(BIN)/python benchmarks/decode.py

clean:  ## remove what make generated, .venv included
	rm -rf .venv demo site build dist *.egg-info .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
