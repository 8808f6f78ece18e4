//! The words that numbers are made of, as `EnglishNumberNormalizer` of OpenAI's Whisper lists them
//! (PyPI `whisper-normalizer` 0.1.15). Multipliers end at "trillion".

const ZEROS: [&str; 3] = ["o", "oh", "zero"];

/// 1 to 19, at index value − 1.
const ONES: [&str; 19] = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];

/// 20 to 90, at index value / 10 − 2.
const TENS: [&str; 8] = [
    "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
];

const MULTIPLIERS: [(&str, i128); 5] = [
    ("hundred", 100),
    ("thousand", 1_000),
    ("million", 1_000_000),
    ("billion", 1_000_000_000),
    ("trillion", 1_000_000_000_000),
];

/// What a word can mean to a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Zero,
    Ones(i128),
    OnesSuffixed(i128, &'static str),
    Tens(i128),
    TensSuffixed(i128, &'static str),
    Multiplier(i128),
    MultiplierSuffixed(i128, &'static str),
    /// "minus", "plus": a sign before a number. The signs were taken out of the text before.
    Sign(char),
    /// "dollars": a sign before the number that precedes the word.
    Currency(char),
    Per,
    Percent,
    And,
    /// "double", "triple": how often the next digit is repeated.
    Repeat(usize),
    Point,
}

impl Word {
    /// What `word` means; `None` for a word that is no part of a number.
    pub fn of(word: &str) -> Option<Self> {
        if ZEROS.contains(&word) {
            return Some(Self::Zero);
        }
        ones(word)
            .or_else(|| tens(word))
            .or_else(|| multiplier(word))
            .or(match word {
                "minus" | "negative" => Some(Self::Sign('-')),
                "plus" | "positive" => Some(Self::Sign('+')),
                "pound" | "pounds" => Some(Self::Currency('£')),
                "euro" | "euros" => Some(Self::Currency('€')),
                "dollar" | "dollars" => Some(Self::Currency('$')),
                "cent" | "cents" => Some(Self::Currency('¢')),
                "per" => Some(Self::Per),
                "percent" => Some(Self::Percent),
                "and" => Some(Self::And),
                "double" => Some(Self::Repeat(2)),
                "triple" => Some(Self::Repeat(3)),
                "point" => Some(Self::Point),
                _ => None,
            })
    }

    /// May stand behind the decimal point.
    pub fn is_decimal(self) -> bool {
        matches!(self, Self::Zero | Self::Ones(_) | Self::Tens(_))
    }
}

fn ones(word: &str) -> Option<Word> {
    match word {
        "zeroth" => return Some(Word::OnesSuffixed(0, "th")),
        "first" => return Some(Word::OnesSuffixed(1, "st")),
        "second" => return Some(Word::OnesSuffixed(2, "nd")),
        "third" => return Some(Word::OnesSuffixed(3, "rd")),
        "fifth" => return Some(Word::OnesSuffixed(5, "th")),
        "twelfth" => return Some(Word::OnesSuffixed(12, "th")),
        "sixes" => return Some(Word::OnesSuffixed(6, "s")),
        _ => {}
    }
    for (value, name) in (1..).zip(ONES) {
        match word.strip_prefix(name) {
            Some("") => return Some(Word::Ones(value)),
            Some("s") if value != 6 => return Some(Word::OnesSuffixed(value, "s")),
            // "eighth", but "fourth"; "fiveth" and "twelveth" are not words.
            Some("h") if value == 8 => return Some(Word::OnesSuffixed(value, "th")),
            Some("th") if value > 3 && ![5, 8, 12].contains(&value) => {
                return Some(Word::OnesSuffixed(value, "th"));
            }
            _ => {}
        }
    }
    None
}

fn tens(word: &str) -> Option<Word> {
    for (value, name) in (2..).map(|tens| tens * 10).zip(TENS) {
        match word.strip_prefix(name.trim_end_matches('y')) {
            Some("y") => return Some(Word::Tens(value)),
            Some("ies") => return Some(Word::TensSuffixed(value, "s")),
            Some("ieth") => return Some(Word::TensSuffixed(value, "th")),
            _ => {}
        }
    }
    None
}

fn multiplier(word: &str) -> Option<Word> {
    for (name, value) in MULTIPLIERS {
        match word.strip_prefix(name) {
            Some("") => return Some(Word::Multiplier(value)),
            Some("s") => return Some(Word::MultiplierSuffixed(value, "s")),
            Some("th") => return Some(Word::MultiplierSuffixed(value, "th")),
            _ => {}
        }
    }
    None
}
