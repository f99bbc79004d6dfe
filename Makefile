# Every target sets itself up: the first one creates .venv and installs the pinned versions into it.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: demo test lint bench clean

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,train,bench]'
	$(BIN)/elgo solve examples --policy-only --starts 1 --symmetries 1 --quiet > /dev/null  # compiles the decoder, once
	$(BIN)/python -c 'from elgo.search.warm_up import warm_up; warm_up("tsp"); warm_up("cvrp")'  # and the search
	$(BIN)/python -c 'from elgo.train.compiled_log_prob import warm_up; warm_up()'  # and training
	touch $@

demo: $(INSTALLED)  ## solve the bundled instances, print a table, leave demo/*.png
	$(BIN)/elgo solve examples --plot demo

test: lint  ## style, types and tests
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy elgo

bench: $(INSTALLED)  ## decoding speed against a straightforward decoder
	$(BIN)/python benchmarks/decode.py

clean:
	rm -rf .venv demo build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
