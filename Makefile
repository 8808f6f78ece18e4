# The two commands: `make demo` and `make test`. What they do is in scripts/, one file for each job.
.DEFAULT_GOAL := help
.PHONY: help demo test lint peers

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Install what is missing, build, fetch the models once, transcribe real speech
	@scripts/demo.sh

test: ## Everything that must hold: lints, documentation, tests
	@scripts/test.sh

lint: ## Formatting, clippy, documentation, scripts
	@scripts/lint.sh

peers: ## Measure against sherpa-onnx and moonshine-voice (ARGS="--json FILE"; PEERS_ONLY=1: without ours)
	@scripts/peers.sh $(ARGS)
