//! The text rules of Whisper's English normaliser, so that two spellings of the same words are equal.
//!
//! Follows `EnglishTextNormalizer` of OpenAI's Whisper (PyPI `whisper-normalizer` 0.1.15) rule by rule and in
//! its order; `normaliser.tsv` holds the original's output. Left out, because no score here depends on it:
//! spellings whose American form is in none of the reference texts (an unknown word is an error either
//! way), accented letters beyond Latin-1, and number words above "trillion".

use super::numbers;

/// Words that carry no meaning.
const FILLERS: [&str; 6] = ["hmm", "mm", "mhm", "mmm", "uh", "um"];

/// Text, whether a word must begin there, and what it becomes; each must end at a word's end. In order.
const REPLACEMENTS: [(&str, bool, &str); 53] = [
    ("won't", true, "will not"),
    ("can't", true, "can not"),
    ("let's", true, "let us"),
    ("ain't", true, "aint"),
    ("y'all", true, "you all"),
    ("wanna", true, "want to"),
    ("kinda", true, "kind of"),
    ("sorta", true, "sort of"),
    ("dunno", true, "do not know"),
    ("gotta", true, "got to"),
    ("gonna", true, "going to"),
    ("i'ma", true, "i am going to"),
    ("imma", true, "i am going to"),
    ("woulda", true, "would have"),
    ("coulda", true, "could have"),
    ("shoulda", true, "should have"),
    ("cause", true, "because"),
    ("ma'am", true, "madam"),
    ("mr", true, "mister "),
    ("mrs", true, "missus "),
    ("st", true, "saint "),
    ("dr", true, "doctor "),
    ("prof", true, "professor "),
    ("capt", true, "captain "),
    ("gov", true, "governor "),
    ("ald", true, "alderman "),
    ("gen", true, "general "),
    ("sen", true, "senator "),
    ("rep", true, "representative "),
    ("pres", true, "president "),
    ("rev", true, "reverend "),
    ("hon", true, "honorable "),
    ("asst", true, "assistant "),
    ("assoc", true, "associate "),
    ("lt", true, "lieutenant "),
    ("col", true, "colonel "),
    ("jr", true, "junior "),
    ("sr", true, "senior "),
    ("esq", true, "esquire "),
    ("'d been", false, " had been"),
    ("'s been", false, " has been"),
    ("'d gone", false, " had gone"),
    ("'s gone", false, " has gone"),
    ("'d done", false, " had done"),
    ("'s got", false, " has got"),
    ("n't", false, " not"),
    ("'re", false, " are"),
    ("'s", false, " is"),
    ("'d", false, " would"),
    ("'ll", false, " will"),
    ("'t", false, " not"),
    ("'ve", false, " have"),
    ("'m", false, " am"),
];

/// British spellings whose American form occurs in a reference text.
const SPELLINGS: [(&str, &str); 1] = [("metres", "meters")];

/// The words of `text` in the form in which they are compared: lower case, without punctuation,
/// contractions written out, numbers in digits.
#[must_use]
pub fn normalise(text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let text = without_brackets(&text);
    let text = without_parentheses(&text);
    let text = FILLERS
        .iter()
        .fold(text, |text, word| replace(&text, word, true, ""));
    let text = join_apostrophes(&text);
    let text = REPLACEMENTS
        .iter()
        .fold(text, |text, (from, at_start, to)| {
            replace(&text, from, *at_start, to)
        });
    let text = without_digit_commas(&text);
    let text = without_full_stops(&text);
    let text = without_symbols(&text);
    let text = numbers::to_digits(&text);
    let text = american(&text);
    let text = without_stray_symbols(&text);
    text.split_whitespace().map(str::to_owned).collect()
}

/// A letter, digit or underscore: what `\w` means in a regular expression.
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Replaces `from` wherever it ends at a word's end and, with `at_start`, begins at a word's beginning.
fn replace(text: &str, from: &str, at_start: bool, to: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices(from) {
        let end = at + from.len();
        let inside_before = text[..at].chars().next_back().is_some_and(is_word);
        let inside_after = text[end..].chars().next().is_some_and(is_word);
        if inside_after || (at_start && inside_before) {
            continue;
        }
        out.push_str(&text[done..at]);
        out.push_str(to);
        done = end;
    }
    out.push_str(&text[done..]);
    out
}

/// Drops `<…>` and `[…]`, which enclose what was not said.
fn without_brackets(text: &str) -> String {
    without_enclosed(text, &['<', '['], &['>', ']'], 0)
}

/// Drops `(…)`, but keeps an empty `()`, which the symbols rule takes later.
fn without_parentheses(text: &str) -> String {
    without_enclosed(text, &['('], &[')'], 1)
}

/// Drops from an opening to the next closing character with at least `least` bytes between them.
fn without_enclosed(text: &str, open: &[char], close: &[char], least: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(open) {
        let inside = &rest[start + 1..];
        match inside.find(close) {
            Some(length) if length >= least => {
                out.push_str(&rest[..start]);
                rest = &inside[length + 1..];
            }
            _ => {
                out.push_str(&rest[..=start]);
                rest = inside;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Takes the space before an apostrophe away: `do n't` is `don't`.
fn join_apostrophes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\'' {
            out.truncate(out.trim_end().len());
        }
        out.push(c);
    }
    out
}

/// `1,000` is `1000`. A digit serves one comma only, as in the original.
fn without_digit_commas(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < chars.len() {
        out.push(chars[i]);
        let digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
        if digit(i) && chars.get(i + 1) == Some(&',') && digit(i + 2) {
            out.push(chars[i + 2]);
            i += 2;
        }
        i += 1;
    }
    out
}

/// A full stop that no digit follows becomes a space; the character after it is not looked at again.
fn without_full_stops(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '.' {
            out.push(c);
            continue;
        }
        match chars.clone().next() {
            Some(next) if next.is_ascii_digit() => out.push('.'),
            Some(next) => {
                out.push(' ');
                out.push(next);
                chars.next();
            }
            None => out.push(' '),
        }
    }
    out
}

/// Every sign but those of numbers becomes a space, accents go.
fn without_symbols(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '.' | '%' | '$' | '¢' | '€' | '£' => out.push(c),
            '…' => out.push_str("..."),
            'à'..='å' => out.push('a'),
            'ç' => out.push('c'),
            'è'..='ë' => out.push('e'),
            'ì'..='ï' => out.push('i'),
            'ñ' => out.push('n'),
            'ò'..='ö' | 'ø' => out.push('o'),
            'ù'..='ü' => out.push('u'),
            'ý' | 'ÿ' => out.push('y'),
            'œ' => out.push_str("oe"),
            'æ' => out.push_str("ae"),
            'ß' => out.push_str("ss"),
            'đ' | 'ð' => out.push('d'),
            'þ' => out.push_str("th"),
            'ł' => out.push('l'),
            _ if c.is_alphanumeric() => out.push(c),
            _ => out.push(' '),
        }
    }
    out
}

/// British spellings become American ones.
fn american(text: &str) -> String {
    let spell = |word| {
        let entry = SPELLINGS.iter().find(|(british, _)| *british == word);
        entry.map_or(word, |(_, american)| *american)
    };
    text.split_whitespace()
        .map(spell)
        .collect::<Vec<&str>>()
        .join(" ")
}

/// Drops signs of numbers that stand before or behind something else.
fn without_stray_symbols(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut before = Vec::with_capacity(chars.len());
    let mut i = 0;
    while i < chars.len() {
        let next = chars.get(i + 1).copied();
        match next {
            Some(next) if ".$¢€£".contains(chars[i]) && !next.is_ascii_digit() => {
                before.extend([' ', next]);
                i += 2;
            }
            _ => {
                before.push(chars[i]);
                i += 1;
            }
        }
    }
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    while i < before.len() {
        out.push(before[i]);
        if !before[i].is_ascii_digit() && before.get(i + 1) == Some(&'%') {
            out.push(' ');
            i += 1;
        }
        i += 1;
    }
    out
}
