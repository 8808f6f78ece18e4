//! Added tokens: found in the text before anything else cuts it, and the place where an injected control token is stopped.
//!
//! As in the `tokenizers` crate, tokens that are not `normalized` are looked for in the text as it came, the others in
//! what the normaliser made of it; the longest match at the leftmost place wins. The crate can only be told to ignore
//! special tokens everywhere; here a match can be refused by where it lies.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use aho_corasick::{AhoCorasick, Input, MatchKind};
use serde::{Deserialize, Serialize};
use tokenizers::normalizer::Range as Of;
use tokenizers::{NormalizedString, Normalizer, NormalizerWrapper, Token};

/// An added token as `tokenizer.json` names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Added {
    pub(super) id: u32,
    pub(super) content: String,
    #[serde(default)]
    pub(super) single_word: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
    #[serde(default)]
    pub(super) normalized: bool,
    #[serde(default)]
    pub(super) special: bool,
}

impl Added {
    /// Whether it speaks to the model about the conversation instead of being text: marked special, or of the form
    /// `<|…|>` that only such tokens have (files that forget the mark are common; llama.cpp does the same).
    pub(super) fn is_control(&self) -> bool {
        self.special || is_control_shape(&self.content)
    }
}

/// `<|…|>`, also with the full-width bars of DeepSeek.
pub(super) fn is_control_shape(text: &str) -> bool {
    let inner = text
        .strip_prefix('<')
        .and_then(|text| text.strip_suffix('>'));
    inner.is_some_and(|inner| {
        ['|', '｜']
            .iter()
            .any(|&bar| inner.chars().count() > 2 && inner.starts_with(bar) && inner.ends_with(bar))
    })
}

/// Which control tokens the text may contain.
#[derive(Debug, Clone, Copy)]
pub(super) enum Allow<'a> {
    Every,
    None,
    /// Those without one of these places (in bytes of the text, in order) after their first byte.
    Unbroken(&'a [usize]),
}

impl Allow<'_> {
    fn allows(self, token: &Added, place: &Range<usize>) -> bool {
        match self {
            Allow::Every => true,
            Allow::None => !token.is_control(),
            Allow::Unbroken(breaks) => {
                let next = breaks.partition_point(|&at| at <= place.start);
                !token.is_control() || breaks.get(next).is_none_or(|&at| at > place.end)
            }
        }
    }
}

/// All added tokens, searchable.
#[derive(Debug)]
pub(super) struct AddedTokens {
    tokens: Vec<Added>,
    by_id: HashMap<u32, usize>,
    raw: Option<Matcher>,
    normalized: Option<Matcher>,
    control: Option<Matcher>,
}

#[derive(Debug)]
struct Matcher {
    automaton: AhoCorasick,
    /// The token of each pattern.
    tokens: Vec<usize>,
}

impl Matcher {
    fn new(patterns: Vec<(usize, Cow<'_, str>)>) -> Result<Option<Self>, String> {
        if patterns.is_empty() {
            return Ok(None);
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(patterns.iter().map(|(_, text)| text.as_bytes()))
            .map_err(|error| format!("cannot search for the added tokens: {error}"))?;
        let tokens = patterns.into_iter().map(|(token, _)| token).collect();
        Ok(Some(Self { automaton, tokens }))
    }
}

impl AddedTokens {
    /// # Errors
    /// One line: what the normaliser or the search says about one of them.
    pub(super) fn new(
        tokens: Vec<Added>,
        normalizer: Option<&NormalizerWrapper>,
    ) -> Result<Self, String> {
        let mut raw = Vec::new();
        let mut normalized = Vec::new();
        let mut control = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            let text = token.content.as_str();
            if text.is_empty() {
                continue;
            }
            if token.is_control() {
                control.push((at, Cow::Borrowed(text)));
            }
            if !token.normalized {
                raw.push((at, Cow::Borrowed(text)));
                continue;
            }
            let mut string = NormalizedString::from(text);
            if let Some(normalizer) = normalizer {
                normalizer
                    .normalize(&mut string)
                    .map_err(|error| format!("cannot normalise {text:?}: {error}"))?;
            }
            if !string.get().is_empty() {
                normalized.push((at, Cow::Owned(string.get().to_owned())));
            }
        }
        let by_id = tokens.iter().enumerate().map(|(at, token)| (token.id, at));
        Ok(Self {
            by_id: by_id.collect(),
            raw: Matcher::new(raw)?,
            normalized: Matcher::new(normalized)?,
            control: Matcher::new(control)?,
            tokens,
        })
    }

    pub(super) fn get(&self, id: u32) -> Option<&Added> {
        self.by_id.get(&id).map(|&at| &self.tokens[at])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Added> {
        self.tokens.iter()
    }

    /// Cuts the text as it came at the tokens that are not normalised.
    pub(super) fn cut_raw(
        &self,
        text: NormalizedString,
        allow: Allow<'_>,
    ) -> Vec<(NormalizedString, Option<Vec<Token>>)> {
        self.cut(self.raw.as_ref(), text, allow)
    }

    /// Cuts normalised text at the tokens that are.
    pub(super) fn cut_normalized(
        &self,
        text: NormalizedString,
        allow: Allow<'_>,
    ) -> Vec<(NormalizedString, Option<Vec<Token>>)> {
        self.cut(self.normalized.as_ref(), text, allow)
    }

    fn cut(
        &self,
        matcher: Option<&Matcher>,
        text: NormalizedString,
        allow: Allow<'_>,
    ) -> Vec<(NormalizedString, Option<Vec<Token>>)> {
        let Some(matcher) = matcher else {
            return vec![(text, None)];
        };
        let found = self.find(matcher, &text, allow);
        if found.is_empty() {
            return vec![(text, None)];
        }
        let mut pieces = Vec::with_capacity(2 * found.len() + 1);
        let mut cut = |place: Range<usize>, id: Option<u32>| {
            let tokens = id.map(|id| vec![Token::new(id, String::new(), (0, place.len()))]);
            if let Some(piece) = text.slice(Of::Normalized(place)) {
                pieces.push((piece, tokens));
            }
        };
        let mut from = 0;
        for (id, place) in found {
            if from < place.start {
                cut(from..place.start, None);
            }
            from = place.end;
            cut(place, Some(id));
        }
        if from < text.get().len() {
            cut(from..text.get().len(), None);
        }
        pieces
    }

    fn find(
        &self,
        matcher: &Matcher,
        string: &NormalizedString,
        allow: Allow<'_>,
    ) -> Vec<(u32, Range<usize>)> {
        let text = string.get();
        let origin = string.offsets_original().0;
        let mut found = Vec::new();
        let mut from = 0;
        let mut at = 0;
        while let Some(hit) = matcher.automaton.find(Input::new(text).range(at..)) {
            let token = &self.tokens[matcher.tokens[hit.pattern().as_usize()]];
            let (before, after) = (&text[..hit.start()], &text[hit.end()..]);
            let is_word = |character: char| character.is_alphanumeric() || character == '_';
            let inside_word =
                token.single_word && (before.ends_with(is_word) || after.starts_with(is_word));
            let place = string
                .convert_offsets(Of::Normalized(hit.range()))
                .map_or(hit.range(), |place| {
                    place.start + origin..place.end + origin
                });
            if inside_word || !allow.allows(token, &place) {
                at = hit.start() + text[hit.start()..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            let mut start = hit.start();
            let mut end = hit.end();
            if token.lstrip {
                start = before.trim_end().len().max(from);
            }
            if token.rstrip {
                end = text.len() - after.trim_start().len();
            }
            found.push((token.id, start..end));
            from = end;
            at = end;
        }
        found
    }

    /// The text with `mark` after the first character of everything that reads like a control token.
    pub(super) fn guard<'t>(&self, text: &'t str, mark: char) -> Cow<'t, str> {
        let Some(matcher) = &self.control else {
            return Cow::Borrowed(text);
        };
        let mut guarded = String::new();
        let mut from = 0;
        while let Some(hit) = matcher.automaton.find(Input::new(text).range(from..)) {
            let first = text[hit.start()..].chars().next().map_or(1, char::len_utf8);
            let next = hit.start() + first;
            guarded.push_str(&text[from..next]);
            guarded.push(mark);
            from = next;
        }
        if from == 0 {
            return Cow::Borrowed(text);
        }
        guarded.push_str(&text[from..]);
        Cow::Owned(guarded)
    }
}
