"""The harness must count right before its figures mean anything. Standard library only."""

import base64
import pathlib
import tempfile
import unittest

import contestants
import peers


class Scoring(unittest.TestCase):
    def test_word_errors_are_counted_as_by_hand(self):
        # Reference, hypothesis, errors, words of the reference; alignments done by hand.
        for reference, hypothesis, errors, words in [
            ("a b c", "a b c", 0, 3),
            ("a b c", "a x c", 1, 3),
            ("a b c", "a c", 1, 3),
            ("a b c", "a b x c", 1, 3),
            ("a b c d", "b c d e", 2, 4),
            ("a b", "", 2, 2),
            ("", "a", 1, 0),
        ]:
            self.assertEqual(peers.word_errors(str, reference, hypothesis), (errors, words))

    def test_true_texts_have_the_published_word_counts(self):
        # docs/speech.md quotes errors of 12 and of 119; the dash is no word.
        counts = {name: len(text.replace(" - ", " ").split()) for name, text in peers.TEXTS.items()}
        self.assertEqual(counts, {"beckett.wav": 12, "two_cities.wav": 119})


class Tokens(unittest.TestCase):
    def test_long_and_odd_symbols_reach_sherpas_file(self):
        # tokenizer.bin by hand: "ab"; one of 130 bytes, its length in two bytes (1 * 128 + 130 - 128 = 130); a space.
        data = b"\x02ab" + bytes([130, 1]) + b"x" * 130 + b"\x01 "
        with tempfile.TemporaryDirectory() as folder:
            source, out = pathlib.Path(folder) / "tokenizer.bin", pathlib.Path(folder) / "tokens.txt"
            source.write_bytes(data)
            contestants.write_tokens(source, out)
            lines = [line.split(" ") for line in out.read_text().splitlines()]
        self.assertEqual([int(number) for _, number in lines], [0, 1, 2])
        self.assertEqual([base64.b64decode(symbol) for symbol, _ in lines], [b"ab", b"x" * 130, b" "])


class Ratios(unittest.TestCase):
    def test_ratios_are_taken_within_each_round(self):
        # 1/2, 3/2, 4/8: their median is 0.5; the ratio of the medians would be 3/2.
        runs = {
            "firstword batch": [{"transcribe": x} for x in (1, 3, 4)],
            "sherpa-onnx batch 0.5 s": [{"transcribe": x} for x in (2, 2, 8)],
        }
        (row,) = peers.ratios([pathlib.Path("x.wav")], {"x.wav": runs})
        self.assertEqual((row["ratio"], row["least"], row["greatest"]), (0.5, 0.5, 1.5))


if __name__ == "__main__":
    unittest.main()
