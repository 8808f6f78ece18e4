"""The contestants with language models: each answers one prompt in a process of its own and reports what it cost.

    python3 language_contestants.py NAME MODEL PROMPT.json NEW THREADS

MODEL is a GGUF file or a model folder, PROMPT.json a list of token ids, NEW how many tokens to make (greedy, the end
of text ignored). Prints one JSON object: wall-clock seconds of loading, of the first token (TTFT) and of each token
after it (TPOT, the mean), and the tokens. Every engine is warmed up once with a prompt of its own that shares no prefix.
"""

import json
import sys
import time


class Llama:
    """llama.cpp through llama-cpp-python."""

    def __init__(self, model, threads, window):
        import llama_cpp

        self.llama_cpp = llama_cpp
        self.engine = llama_cpp.Llama(
            model, n_ctx=window, n_threads=threads, n_threads_batch=threads, n_batch=512, verbose=False
        )

    def run(self, prompt, new):
        self.engine.reset()
        begin = time.perf_counter()
        stamps, tokens = [], []
        for token in self.engine.generate(prompt, temp=0.0, top_k=1, repeat_penalty=1.0, reset=True):
            stamps.append(time.perf_counter() - begin)
            tokens.append(token)
            if len(tokens) == new:
                break
        return stamps, tokens


class Genai:
    """onnxruntime-genai on a folder."""

    def __init__(self, model, threads, window):
        import onnxruntime_genai as genai

        self.genai, self.window = genai, window
        config = genai.Config(model)
        options = {"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}
        config.overlay(json.dumps(options))
        self.engine = genai.Model(config)

    def run(self, prompt, new):
        params = self.genai.GeneratorParams(self.engine)
        # min_length: the end of text is not chosen.
        params.set_search_options(do_sample=False, max_length=self.window, min_length=len(prompt) + new)
        generator = self.genai.Generator(self.engine, params)
        begin = time.perf_counter()
        generator.append_tokens(prompt)
        stamps, tokens = [], []
        while len(tokens) < new:
            generator.generate_next_token()
            tokens.append(int(generator.get_next_tokens()[0]))
            stamps.append(time.perf_counter() - begin)
        return stamps, tokens


class OpenVino:
    """OpenVINO GenAI on the GGUF file."""

    def __init__(self, model, threads, window):
        import openvino_genai

        self.genai = openvino_genai
        self.engine = openvino_genai.LLMPipeline(
            model, "CPU", {"INFERENCE_NUM_THREADS": threads, "ATTENTION_BACKEND": "SDPA"}
        )

    def run(self, prompt, new):
        import numpy
        import openvino

        config = self.genai.GenerationConfig()
        config.max_new_tokens, config.ignore_eos, config.do_sample = new, True, False
        begin = time.perf_counter()
        ids = openvino.Tensor(numpy.array([prompt], numpy.int64))
        result = self.engine.generate(ids, config)
        metrics = result.perf_metrics
        first = metrics.get_ttft().mean / 1e3
        each = metrics.get_tpot().mean / 1e3
        assert time.perf_counter() - begin >= first
        tokens = [int(t) for t in result.tokens[0]]
        return [first + each * i for i in range(len(tokens))], tokens


CONTESTANTS = {"llama.cpp": Llama, "onnxruntime-genai": Genai, "openvino-genai": OpenVino}


def main():
    name, model, prompt, new, threads = sys.argv[1:]
    new, threads = int(new), int(threads)
    with open(prompt, encoding="utf-8") as file:
        ids = json.load(file)
    begin = time.perf_counter()
    engine = CONTESTANTS[name](model, threads, len(ids) + new)
    load = time.perf_counter() - begin
    engine.run(list(reversed(ids))[:64], 4)
    stamps, tokens = engine.run(ids, new)
    each = (stamps[-1] - stamps[0]) / (len(stamps) - 1)
    print(json.dumps({"load": load, "ttft": stamps[0], "tpot": each, "tokens": tokens}))


if __name__ == "__main__":
    main()
