//! Number words to digits: "twenty one" is "21", "one oh one" is "101", "two dollars" is "$2".
//!
//! Follows `EnglishNumberNormalizer` of OpenAI's Whisper (PyPI `whisper-normalizer` 0.1.15) branch by branch, its
//! oddities included ("one" stays a word, a lone "point" may vanish): scores must be comparable with
//! those of others.

use super::normaliser::is_word;
use super::number_words::Word;

/// A number that is being put together.
#[derive(Clone, Debug)]
enum Value {
    /// An amount that words can still add to or multiply.
    Amount(i128),
    /// Digits in a row, as in a telephone number or behind a decimal point.
    Digits(String),
}

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Amount(n) => n.to_string(),
            Self::Digits(s) => s.clone(),
        }
    }
}

/// Digits with at most one full stop between them.
fn is_number(word: &str) -> bool {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    match word.split_once('.') {
        Some((whole, decimals)) => digits(whole) && digits(decimals),
        None => digits(word),
    }
}

/// `number × multiplier` where that is whole; `None` where it is not, or `number` is no number.
fn times(number: &str, multiplier: i128) -> Option<i128> {
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(decimals) || (whole.is_empty() && decimals.is_empty()) {
        return None;
    }
    let scale = 10_i128.checked_pow(u32::try_from(decimals.len()).ok()?)?;
    let numerator: i128 = format!("{whole}{decimals}").parse().ok()?;
    let product = numerator.checked_mul(multiplier)?;
    (product % scale == 0).then_some(product / scale)
}

/// The text with its number words as digits.
pub fn to_digits(text: &str) -> String {
    let text = with_spaces_around_digits(&with_halves(text));
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = Reader::default().read(&words).join(" ");
    with_one_as_word(&with_cents(&text))
}

#[derive(Default)]
struct Reader {
    sign: Option<char>,
    value: Option<Value>,
    out: Vec<String>,
}

impl Reader {
    /// Writes a word or a finished number, with the sign that waits for it.
    fn put(&mut self, text: &str) {
        let sign = self.sign.take().map(String::from).unwrap_or_default();
        self.out.push(sign + text);
        self.value = None;
    }

    /// Writes the number under construction, if there is one.
    fn flush(&mut self) {
        if let Some(value) = self.value.take() {
            self.put(&value.text());
        }
    }

    fn flush_and_put(&mut self, word: &str) {
        self.flush();
        self.put(word);
    }

    /// The digits so far; an amount of 0 counts as none, as in the original.
    fn digits(&self) -> String {
        match &self.value {
            None | Some(Value::Amount(0)) => String::new(),
            Some(value) => value.text(),
        }
    }

    fn read(mut self, words: &[&str]) -> Vec<String> {
        let mut skip = false;
        for (i, &current) in words.iter().enumerate() {
            if std::mem::take(&mut skip) {
                continue;
            }
            let previous = i.checked_sub(1).and_then(|i| Word::of(words[i]));
            let next = words.get(i + 1).copied().unwrap_or_default();
            let next_word = Word::of(next);
            let numeric_follows = next_word.is_some() || is_number(next);

            let currency = current.chars().next().filter(|c| "£€$¢".contains(*c));
            let bare = currency.map_or(current, |c| &current[c.len_utf8()..]);
            if is_number(bare) {
                self.arabic(current, bare, currency);
                continue;
            }
            let Some(word) = Word::of(current) else {
                self.flush_and_put(current);
                continue;
            };
            match word {
                Word::Zero => self.value = Some(Value::Digits(self.digits() + "0")),
                Word::Ones(n) => self.value = Some(self.with_ones(n, previous)),
                Word::OnesSuffixed(n, suffix) => {
                    let number = self.with_ones(n, previous).text();
                    self.put(&(number + suffix));
                }
                Word::Tens(n) => self.value = Some(self.with_tens(n)),
                Word::TensSuffixed(n, suffix) => {
                    let number = self.with_tens(n).text();
                    self.put(&(number + suffix));
                }
                Word::Multiplier(n) => self.multiply(n),
                Word::MultiplierSuffixed(n, suffix) => self.multiply_and_put(n, suffix),
                Word::Sign(sign) => {
                    self.flush();
                    if numeric_follows {
                        self.sign = Some(sign);
                    } else {
                        self.put(current);
                    }
                }
                Word::Currency(sign) => {
                    if self.value.is_some() {
                        self.sign = Some(sign);
                        self.flush();
                    } else {
                        self.put(current);
                    }
                }
                Word::Per | Word::Percent => match self.value.take() {
                    Some(value) if word == Word::Percent => self.put(&(value.text() + "%")),
                    Some(value) if next == "cent" => {
                        self.put(&(value.text() + "%"));
                        skip = true;
                    }
                    Some(value) => {
                        self.put(&value.text());
                        self.put(current);
                    }
                    None => self.put(current),
                },
                Word::And | Word::Repeat(_) | Word::Point if !numeric_follows => {
                    self.flush_and_put(current);
                }
                // "two hundred and one", but "one and two".
                Word::And => {
                    if !matches!(previous, Some(Word::Multiplier(_))) {
                        self.flush_and_put(current);
                    }
                }
                Word::Repeat(times) => match next_word {
                    Some(Word::Zero) => {
                        self.value = Some(Value::Digits(self.digits() + &"0".repeat(times)));
                        skip = true;
                    }
                    Some(Word::Ones(n)) => {
                        let repeated = n.to_string().repeat(times);
                        self.value = Some(Value::Digits(self.digits() + &repeated));
                        skip = true;
                    }
                    _ => self.flush_and_put(current),
                },
                Word::Point => {
                    if is_number(next) || next_word.is_some_and(Word::is_decimal) {
                        self.value = Some(Value::Digits(self.digits() + "."));
                    }
                }
            }
        }
        self.flush();
        self.out
    }

    /// A number that is in digits already.
    fn arabic(&mut self, current: &str, bare: &str, currency: Option<char>) {
        match &mut self.value {
            Some(Value::Digits(digits)) if digits.ends_with('.') => {
                digits.push_str(current);
                return;
            }
            Some(_) => self.flush(),
            None => {}
        }
        self.sign = currency.or(self.sign);
        self.value = Some(match times(bare, 1) {
            Some(n) => Value::Amount(n),
            None => Value::Digits(bare.to_owned()),
        });
    }

    /// The value with a number of 0 to 19 behind it: added where there is room, appended otherwise.
    fn with_ones(&self, n: i128, previous: Option<Word>) -> Value {
        match &self.value {
            None => Value::Amount(n),
            Some(Value::Amount(v)) if !matches!(previous, Some(Word::Ones(_))) => {
                let room = if n < 10 { 10 } else { 100 };
                if v % room == 0 {
                    Value::Amount(v + n)
                } else {
                    Value::Digits(format!("{v}{n}"))
                }
            }
            Some(value) => {
                let digits = value.text();
                // "oh twenty one": the zero of twenty makes room for the one.
                let stem = match previous {
                    Some(Word::Tens(_)) if n < 10 => digits.strip_suffix('0').unwrap_or(&digits),
                    _ => &digits,
                };
                Value::Digits(format!("{stem}{n}"))
            }
        }
    }

    /// The value with 20, 30 … 90 behind it.
    fn with_tens(&self, n: i128) -> Value {
        match &self.value {
            None => Value::Amount(n),
            Some(Value::Amount(v)) if v % 100 == 0 => Value::Amount(v + n),
            Some(value) => Value::Digits(format!("{}{n}", value.text())),
        }
    }

    fn multiply(&mut self, n: i128) {
        self.value = Some(Value::Amount(match self.value.take() {
            None => n,
            Some(Value::Amount(v)) => v / 1000 * 1000 + v % 1000 * n,
            Some(Value::Digits(digits)) => times(&digits, n).unwrap_or_else(|| {
                self.put(&digits);
                n
            }),
        }));
    }

    fn multiply_and_put(&mut self, n: i128, suffix: &str) {
        let number = match self.value.take() {
            None => n,
            Some(Value::Amount(v)) => v / 1000 * 1000 + v % 1000 * n,
            Some(Value::Digits(digits)) => times(&digits, n).unwrap_or_else(|| {
                self.put(&digits);
                n
            }),
        };
        self.put(&format!("{number}{suffix}"));
    }
}

/// "two and a half" is "two point five".
fn with_halves(text: &str) -> String {
    let segments = split_at_halves(text);
    let mut out: Vec<&str> = Vec::new();
    for (i, segment) in segments.iter().enumerate() {
        let Some(last) = segment.split_whitespace().next_back() else {
            continue;
        };
        out.push(segment);
        if i + 1 < segments.len() {
            let number = matches!(
                Word::of(last),
                Some(Word::Zero | Word::Ones(_) | Word::Tens(_) | Word::Multiplier(_))
            );
            out.push(if number { "point five" } else { "and a half" });
        }
    }
    out.join(" ")
}

/// What lies between the "and a half"s.
fn split_at_halves(text: &str) -> Vec<String> {
    let mut segments = vec![Vec::new()];
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut i = 0;
    while i < words.len() {
        if words[i..].starts_with(&["and", "a", "half"]) {
            segments.push(Vec::new());
            i += 3;
        } else {
            segments.last_mut().unwrap().push(words[i]);
            i += 1;
        }
    }
    segments.iter().map(|words| words.join(" ")).collect()
}

/// A space between letters and digits, but none before an ending: `10km` is `10 km`, `20 th` is `20th`.
fn with_spaces_around_digits(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len());
    let mut previous = ' ';
    for c in text.chars() {
        let boundary = (previous.is_ascii_lowercase() && c.is_ascii_digit())
            || (previous.is_ascii_digit() && c.is_ascii_lowercase());
        if boundary {
            spaced.push(' ');
        }
        spaced.push(c);
        previous = c;
    }
    let mut out = String::with_capacity(spaced.len());
    for word in spaced.split_whitespace() {
        let ending: String = word.chars().take_while(|c| is_word(*c)).collect();
        let ends = ["st", "nd", "rd", "th", "s"].contains(&ending.as_str());
        let behind_digit = out.chars().next_back().is_some_and(|c| c.is_ascii_digit());
        if !(out.is_empty() || (ends && behind_digit)) {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// "$2 and ¢7" is "$2.07"; "$0.5" is "¢5".
fn with_cents(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let mut out: Vec<String> = Vec::new();
    let mut i = 0;
    while i < words.len() {
        let and = usize::from(words.get(i + 1) == Some(&"and"));
        let cents = words
            .get(i + 1 + and)
            .and_then(|word| word.strip_prefix('¢'));
        let cents =
            cents.filter(|c| (1..=2).contains(&c.len()) && c.bytes().all(|b| b.is_ascii_digit()));
        match cents {
            Some(cents) if is_whole_money(words[i]) => {
                out.push(format!("{}.{cents:0>2}", words[i]));
                i += 2 + and;
            }
            _ => {
                out.push(words[i].to_owned());
                i += 1;
            }
        }
    }
    only_cents(&out.join(" "))
}

/// "$0.50" is "¢50". The original takes any character for the full stop ("$0090" is "¢90"), so does this.
fn only_cents(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let ends = |at: usize| !chars.get(at).copied().is_some_and(is_word);
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < chars.len() {
        let length = [2, 1]
            .into_iter()
            .find(|n| (i + 3..i + 3 + n).all(digit) && ends(i + 3 + n));
        match length {
            Some(length) if "€£$".contains(chars[i]) && chars[i + 1] == '0' => {
                let cents: String = chars[i + 3..i + 3 + length].iter().collect();
                let without_zero = if length == 2 {
                    cents.trim_start_matches('0')
                } else {
                    &cents
                };
                out.push('¢');
                out.push_str(if without_zero.is_empty() {
                    "0"
                } else {
                    without_zero
                });
                i += 3 + length;
            }
            _ => {
                out.push(chars[i]);
                i += 1;
            }
        }
    }
    out
}

fn is_whole_money(word: &str) -> bool {
    word.strip_prefix(['€', '£', '$'])
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// A lone 1 is the word "one" again, 1s are "ones".
fn with_one_as_word(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    for (i, &c) in chars.iter().enumerate() {
        let begins = i == 0 || !is_word(chars[i - 1]);
        let word_at = |at: usize| chars.get(at).copied().is_some_and(is_word);
        let ends = !word_at(i + 1) || (chars[i + 1] == 's' && !word_at(i + 2));
        if c == '1' && begins && ends {
            out.push_str("one");
        } else {
            out.push(c);
        }
    }
    out
}
