"""The contestants: each transcribes one recording in a process of its own and reports what it cost.

    python3 contestants.py NAME RECORDING.wav FOLDER_OF_SILERO_VAD

Prints one JSON object: CPU seconds (user and system, all threads) of loading and of transcribing, and the
text. A library is measured inside its process, from the samples in memory (16 kHz, mono) to the text: reading
the file and resampling are done before and charged to nobody.
"""

import base64
import json
import pathlib
import sys
import tempfile
import time
import wave


def read_16k(path):
    """Samples of a 16 bit WAV file as float32, mono, 16 kHz."""
    import numpy
    import soxr

    with wave.open(str(path)) as recording:
        if recording.getsampwidth() != 2:
            raise SystemExit(f"{path}: expected 16 bit samples, found {8 * recording.getsampwidth()} bit")
        rate = recording.getframerate()
        data = numpy.frombuffer(recording.readframes(recording.getnframes()), numpy.int16)
        samples = data.reshape(-1, recording.getnchannels()).mean(axis=1).astype(numpy.float32) / 32768
    return soxr.resample(samples, rate, 16000).astype(numpy.float32)


def moonshine_folder():
    """Folder of Moonshine tiny-en in the moonshine-voice wheel: the same weights for all contestants."""
    import importlib.util

    package = importlib.util.find_spec("moonshine_voice")
    return pathlib.Path(package.origin).parent / "assets" / "tiny-en"


def write_tokens(tokenizer, out):
    """Moonshine's tokenizer.bin (a length of one or two bytes, then the symbol's bytes) as the `tokens.txt` that
    sherpa-onnx reads for these models: lines `symbol-in-base64 id`."""
    data = tokenizer.read_bytes()
    at = number = 0
    with out.open("w", encoding="ascii") as lines:
        while at < len(data):
            length = data[at]
            at += 1
            if length >= 128:
                length = data[at] * 128 + length - 128
                at += 1
            symbol = data[at : at + length]
            at += length
            # A line must not begin with a space, as that of an empty symbol would.
            lines.write(f"{base64.b64encode(symbol or b'<unused>').decode()} {number}\n")
            number += 1


def sherpa(pause):
    """sherpa-onnx: cut by its Silero detector at pauses of `pause` seconds, each segment decoded, one thread."""

    def run(samples, silero):
        import sherpa_onnx

        begin = time.process_time()
        folder = moonshine_folder()
        with tempfile.TemporaryDirectory() as scratch:
            tokens = pathlib.Path(scratch) / "tokens.txt"
            writing = time.process_time()
            write_tokens(folder / "tokenizer.bin", tokens)
            begin += time.process_time() - writing  # not a cost of the library
            recognizer = sherpa_onnx.OfflineRecognizer.from_moonshine_v2(
                encoder=str(folder / "encoder_model.ort"),
                decoder=str(folder / "decoder_model_merged.ort"),
                tokens=str(tokens),
                num_threads=1,
            )
        config = sherpa_onnx.VadModelConfig()
        config.silero_vad.model = str(pathlib.Path(silero) / "silero_vad.onnx")
        config.silero_vad.min_silence_duration = pause
        config.sample_rate = 16000
        config.num_threads = 1
        detector = sherpa_onnx.VoiceActivityDetector(config, buffer_size_in_seconds=60)
        loaded = time.process_time()

        texts = []

        def decode_segments():
            while not detector.empty():
                stream = recognizer.create_stream()
                stream.accept_waveform(16000, detector.front.samples)
                detector.pop()
                recognizer.decode_stream(stream)
                texts.append(stream.result.text)

        window = config.silero_vad.window_size
        for at in range(0, len(samples), window):
            detector.accept_waveform(samples[at : at + window])
            decode_segments()
        detector.flush()
        decode_segments()
        done = time.process_time()
        return loaded - begin, done - loaded, " ".join(texts)

    return run


def moonshine_transcriber():
    from moonshine_voice.moonshine_api import ModelArch
    from moonshine_voice.transcriber import Transcriber

    return Transcriber(model_path=str(moonshine_folder()), model_arch=ModelArch.TINY)


def moonshine_batch(samples, _silero):
    """moonshine-voice, the whole recording at once (its own voice activity cuts it)."""
    import moonshine_voice.transcriber  # noqa: F401  (importing is no part of the cost)

    samples = samples.tolist()  # the type that its interface takes
    begin = time.process_time()
    transcriber = moonshine_transcriber()
    loaded = time.process_time()
    transcript = transcriber.transcribe_without_streaming(samples, 16000)
    done = time.process_time()
    return loaded - begin, done - loaded, " ".join(line.text for line in transcript.lines)


def moonshine_stream(interval):
    """moonshine-voice fed in pieces of 0.1 s, as in its own example, with updates every `interval` seconds."""

    def run(samples, _silero):
        import moonshine_voice.transcriber  # noqa: F401

        pieces = [samples[at : at + 1600].tolist() for at in range(0, len(samples), 1600)]
        begin = time.process_time()
        transcriber = moonshine_transcriber()
        loaded = time.process_time()
        lines = {}  # the last text of every line, in the order of their beginnings

        def note(event):
            if event.line is not None:
                lines[event.line.line_id] = (event.line.start_time, event.line.text)

        stream = transcriber.create_stream(update_interval=interval)
        stream.add_listener(note)
        stream.start()
        for piece in pieces:
            stream.add_audio(piece, 16000)
        stream.stop()
        done = time.process_time()
        return loaded - begin, done - loaded, " ".join(text for _, text in sorted(lines.values()))

    return run


LIBRARIES = {
    "sherpa-onnx batch 0.5 s": sherpa(0.5),  # its default
    "sherpa-onnx batch 0.25 s": sherpa(0.25),  # shorter pieces: cheaper, more errors
    "moonshine-voice batch": moonshine_batch,
    "moonshine-voice stream 0.5 s": moonshine_stream(0.5),
    "moonshine-voice stream 0.2 s": moonshine_stream(0.2),
}


def main():
    name, recording, silero = sys.argv[1:]
    load, transcribe, text = LIBRARIES[name](read_16k(recording), silero)
    print(json.dumps({"load": load, "transcribe": transcribe, "text": text}))


if __name__ == "__main__":
    main()
