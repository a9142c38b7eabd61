# Two commands do all the set-up: `make demo` and `make test`. Continuous integration runs `make check slow`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DONE := $(VENV)/.installed
# The lowest supported versions: `make test VENV=.venv-lowest EXTRAS=test CONSTRAINTS=constraints-lowest.txt`
EXTRAS ?= dev
CONSTRAINTS ?= constraints.txt

.PHONY: demo test docs site slow check lint types layers format tables notebooks coverage bench fuzz dist clean

demo: $(DONE)  ## one to two minutes: five methods on embedded data, a table; runs, records and report.html in nescio-demo/
	$(BIN)/nescio demo

test: $(DONE)  ## every test, but for those that are slow
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -rs

docs: $(DONE)  ## the documentation, on http://127.0.0.1:8000
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

site: $(DONE)  ## the documentation as files, in build/site; it needs no server and no network
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

slow: $(DONE)  ## the slow tests: some claims at full size
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -rs -m slow tests

check: lint types layers site test  ## all that must hold before a change lands

lint: $(DONE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DONE)
	$(BIN)/mypy

layers: $(DONE)
	$(BIN)/lint-imports

format: $(DONE)  ## put the code in its usual form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

tables: $(DONE)  ## write the tables of README and docs, from docstrings and records
	$(BIN)/python -m docs.tables

notebooks: $(DONE)  ## run the notebooks of the documentation, and write their outputs into them
	OMP_NUM_THREADS=1 $(BIN)/python docs/execute_notebooks.py

coverage: $(DONE)  ## which lines and branches the tests reach
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --cov --cov-report=term-missing:skip-covered

bench: $(DONE)  ## speed, as ratios measured in one run
	$(BIN)/python benchmarks/metrics.py
	$(BIN)/python benchmarks/predict.py
	$(BIN)/python benchmarks/draws.py
	$(BIN)/python benchmarks/duq.py
	$(BIN)/python benchmarks/acet.py
	$(BIN)/python benchmarks/asymptote.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --editable '.[bench]'
	$(BIN)/python benchmarks/gradients.py
	$(BIN)/python benchmarks/detectors.py

SECONDS ?= 60
SEED ?= 0
fuzz: $(DONE)  ## random files, arrays, threads and faults against our promises: `make fuzz SECONDS=300 SEED=1`
	OMP_NUM_THREADS=1 $(BIN)/python -m fuzz --seconds $(SECONDS) --seed $(SEED)

dist: $(DONE)  ## source archive and wheel of this version, in dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation

clean:
	rm -rf $(VENV) build dist nescio-demo

$(DONE): pyproject.toml $(CONSTRAINTS)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) --editable '.[$(EXTRAS)]'
	touch $@
