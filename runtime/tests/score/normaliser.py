"""Writes normaliser.tsv: texts and what whisper-normalizer 0.1.15 makes of them.

    python3 -m pip install whisper-normalizer==0.1.15
    python3 normaliser.py SHARED/speech/manifest.tsv [HYPOTHESES.txt] > normaliser.tsv

The texts are the true texts of the recordings, what recognisers made of them (`heard` in the file that is
there already, and the lines of HYPOTHESES.txt), phrases with numbers and titles as recognisers write them, and
word salad from a fixed seed that reaches the odd branches. Prints to stderr the British spellings that the
Rust side must know: those whose American form occurs in a true text.
"""

import pathlib
import random
import sys

from whisper_normalizer.english import EnglishTextNormalizer

PHRASES = """
Mr. Carker and Mrs. Dashwood met Dr. Who in St. Louis.
mister carker, Mister Carker; MR CARKER
Mr Birket Foster's landscapes smile at one.
Linnell's pictures are a sort of Up Guards and at 'em paintings
Linnell's pictures are a sort of up-guards-and-at-'em paintings
Mason's exquisite idylls are as national as a jingo poem.
cold-hearted, cold hearted, coldhearted
ill-disposed
Don't can't won't ain't let's y'all it's he'd been she's gone I'm I've we're you'll they'd
He's got it. It's been done. I'd done it. What's the matter?
I'm gonna, I wanna, kinda, sorta, dunno, gotta, 'cause, because
Don\u2019t use curly \u2018quotes\u2019 \u201chere\u201d\u2026 or \u2014 dashes \u2013 please
do n't and it 's and they 're
um, uh, hmm, well... mm-hmm
[music] (applause) <noise> words
() [] (unclosed [here
10
ten
Ten of clubs.
10 of clubs
Go forward ten meters.
Go forward 10 metres.
go forward tan meters
One, two, three.
1, 2, 3
1 2 3
one two three
123
123.
One hundred and twenty-three
twenty one
twenty-one
Drop the two when you add the figures.
Drop the 2 when you add the figures.
We are sure that one war is enough.
We are sure that 1 war is enough.
the 1st, the first, the 2nd, the second, the third, the 3rd, the 21st of May
nineteen sixty three
nineteen oh five
1963, in the 1960s, the sixties, the nineteen sixties
two thousand and one
two thousand twenty six
a hundred thousand
three million five hundred thousand
1,000,000
1,000 and 2,500.75 and 3,5
3.14
three point one four
point five
the point is
point hundred
zero
oh no
oh oh seven
double oh seven
double seven triple nine
double trouble
$20 million
twenty dollars
$1
two dollars and seven cents
$0.50
fifty cents
five pounds fifty
10%
ten percent
ten per cent
ten per second
per cent
minus five degrees
plus one
a plus sign
two and a half
one and a half hours
and a half
an hour and a half
half past four and a half
four score and seven years ago
eight hundred eighty eight
six sixes, sevens, tens
hundreds of thousands
two hundreds
the hundredth time
one hundredth
twentieth century
twenty first century
fifty first
one twenty
one twenty one
eleven thirteen
twenty eleven
thirty twenty
five twenty
room 101
room one oh one
10km at 5pm on the 4 th
B2B, mp3, 4x4
1.2.3.4
one hundred two hundred
5 thousand
0.5 million
2.5 hundred
one point five million
1.55 hundred
na\u00efve caf\u00e9 r\u00e9sum\u00e9 \u00c6sop stra\u00dfe
What? No! Yes; maybe: (never)
e.g. this, i.e. that
U.S. v. U.K.
a.m. 5 a.m. 5:30 p.m.
50/50
snake_case words
.
...
a . b
%
5 %
a% b
- - -
'
""".strip("\n").split("\n")

# True texts that are in no manifest: the recordings of the moonshine-voice wheel.
WHEEL = [
    "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better.",
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of "
    "foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it "
    "was the season of Darkness, it was the spring of hope, it was the winter of despair, we had everything "
    "before us, we had nothing before us, we were all going direct to Heaven, we were all going direct the "
    "other way\u2014in short, the period was so far like the present period, that some of its noisiest "
    "authorities insisted on its being received, for good or for evil, in the superlative degree of comparison "
    "only.",
]

SALAD = (
    "o oh zero one two three five eight nine ten eleven twelve nineteen ones sixes fifth eighth twelfth "
    "twenty thirty ninety twenties thirtieth hundred thousand million hundreds thousandth minus plus dollars "
    "cents pounds per cent percent and double triple point a half the 0 1 2 7 10 42 100 3.5 0.25 $5 $2 1st"
).split()


def main():
    normalise = EnglishTextNormalizer()
    here = pathlib.Path(__file__).with_name("normaliser.tsv")
    true = [row.split("\t")[4] for row in pathlib.Path(sys.argv[1]).read_text().splitlines()[1:]]
    # The stereo recording's two sides are scored one by one.
    for text in list(true):
        if text.startswith("(L) "):
            true += text.removeprefix("(L) ").split(" (R) ")
    true += WHEEL
    heard = []
    if here.exists():
        rows = [row.split("\t") for row in here.read_text().splitlines()]
        heard = [text for kind, text, _ in rows if kind == "heard"]
    if len(sys.argv) > 2:
        heard += pathlib.Path(sys.argv[2]).read_text().splitlines()
    chance = random.Random(1)
    salad = [" ".join(chance.choices(SALAD, k=chance.randint(2, 6))) for _ in range(400)]

    kinds = {"true": true, "heard": heard, "phrase": PHRASES, "salad": salad}
    for kind, texts in kinds.items():
        for text in dict.fromkeys(t.strip() for t in texts):
            if text:
                sys.stdout.write(f"{kind}\t{text}\t{' '.join(normalise(text).split())}\n")

    words = {word for text in true for word in normalise(text).split()}
    table = normalise.standardize_spellings.mapping
    for british, american in sorted(table.items()):
        if american in words and american != british:
            print(f'    ("{british}", "{american}"),', file=sys.stderr)


if __name__ == "__main__":
    main()
