# The two commands: `make demo` and `make test`. What they do is in scripts/, one file for each job.
.DEFAULT_GOAL := help
.PHONY: help demo test lint cross cross-test peers language-peers

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Install what is missing, build, fetch the models once, transcribe real speech, answer a question
	@scripts/demo.sh

test: ## Everything that must hold: lints, documentation, tests
	@scripts/test.sh

lint: ## Formatting, clippy, documentation, scripts
	@scripts/lint.sh

cross: ## Build for aarch64 without docker, and check that a device can start it (FIRSTWORD_JETPACK=5|6)
	@scripts/cross.sh

cross-test: ## Run what was built for aarch64 under qemu and compare it with this machine's
	@scripts/cross-test.sh

peers: ## Measure against sherpa-onnx and moonshine-voice (ARGS="--json FILE"; PEERS_ONLY=1: without ours)
	@scripts/peers.sh $(ARGS)

language-peers: ## Measure against llama.cpp, onnxruntime-genai and OpenVINO GenAI (MODEL=gemma-3-270m; ARGS="--rounds 3")
	@scripts/language-peers.sh $(or $(MODEL),smollm2-135m-instruct) $(ARGS)
