//! Tokens → text to show: whole characters only, no lost space, never a part of a stop string.
//!
//! A token is bytes, not text: an emoji may come in four tokens, and a stop string may begin in the middle of one. So
//! bytes wait until they are characters, and characters wait as long as they could be the beginning of a stop string.
//! Whatever the tokens, all pieces together are the tokenizer's [`decode`](Tokenizer::decode) of all of them, cut
//! where the first stop string to be complete begins.

use std::sync::Arc;

use super::tokenizer::Tokenizer;

/// The text of one reply, token by token.
#[derive(Debug, Clone)]
pub struct TextStream {
    tokenizer: Arc<Tokenizer>,
    stops: Vec<String>,
    /// Bytes that are no whole character yet: at most three.
    bytes: Vec<u8>,
    /// Text that may yet turn out to be a stop string.
    held: String,
    /// The text's first byte has not come, and a space there is not part of it.
    drops_space: bool,
    stopped: Option<usize>,
}

impl TextStream {
    /// The text of a reply. `stops` end it and are not shown; empty ones are ignored.
    pub fn new(tokenizer: Arc<Tokenizer>, stops: &[String]) -> Self {
        Self {
            drops_space: tokenizer.drops_first_space(),
            tokenizer,
            stops: stops
                .iter()
                .filter(|stop| !stop.is_empty())
                .cloned()
                .collect(),
            bytes: Vec::new(),
            held: String::new(),
            stopped: None,
        }
    }

    /// The text goes on where a prompt ended (a completion, not a turn of its own): a first space is part of it.
    #[must_use]
    pub fn continuing(mut self) -> Self {
        self.drops_space = false;
        self
    }

    /// Takes the next token; gives the text that can be shown now. Special tokens give none, and after a stop string
    /// nothing does.
    pub fn push(&mut self, token: u32) -> String {
        if self.stopped.is_some() || self.tokenizer.is_special(token) {
            return String::new();
        }
        let bytes = self.tokenizer.token_bytes(token);
        let mut bytes: &[u8] = &bytes;
        if let Some((&first, rest)) = bytes.split_first()
            && self.drops_space
        {
            self.drops_space = false;
            bytes = if first == b' ' { rest } else { bytes };
        }
        self.bytes.extend_from_slice(bytes);
        let whole = whole_characters(&self.bytes);
        let text = String::from_utf8_lossy(&self.bytes[..whole]).into_owned();
        self.bytes.drain(..whole);
        self.add(&text)
    }

    /// The rest of the text, once no token will follow. Half a character becomes U+FFFD.
    pub fn finish(&mut self) -> String {
        if self.stopped.is_some() {
            return String::new();
        }
        let last = String::from_utf8_lossy(&std::mem::take(&mut self.bytes)).into_owned();
        let mut text = self.add(&last);
        if self.stopped.is_none() {
            text.push_str(&std::mem::take(&mut self.held));
        }
        text
    }

    /// The stop string that has ended the text.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.map(|at| self.stops[at].as_str())
    }

    fn add(&mut self, text: &str) -> String {
        self.held.push_str(text);
        if let Some((start, stop)) = first_stop(&self.held, &self.stops) {
            self.stopped = Some(stop);
            self.bytes.clear();
            self.held.truncate(start);
            return std::mem::take(&mut self.held);
        }
        let safe = self.held.len() - longest_beginning(&self.held, &self.stops);
        self.held.drain(..safe).collect()
    }
}

/// How many of the bytes can be decoded now: all but a character that lacks its end.
fn whole_characters(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Err(error) = std::str::from_utf8(&bytes[at..]) {
        at += error.valid_up_to();
        match error.error_len() {
            Some(invalid) => at += invalid,
            None => return at,
        }
    }
    bytes.len()
}

/// Where the first stop string to be complete begins, and which it is; of two that end together, the longer.
fn first_stop(text: &str, stops: &[String]) -> Option<(usize, usize)> {
    let found = stops.iter().enumerate().filter_map(|(which, stop)| {
        let start = text.find(stop.as_str())?;
        Some((start + stop.len(), start, which))
    });
    found.min().map(|(_, start, which)| (start, which))
}

/// The length in bytes of the longest end of the text with which a stop string begins.
fn longest_beginning(text: &str, stops: &[String]) -> usize {
    let longest = stops.iter().map(|stop| {
        let beginnings = stop.char_indices().map(|(at, _)| at).skip(1);
        let held = beginnings.filter(|&length| text.ends_with(&stop[..length]));
        held.max().unwrap_or(0)
    });
    longest.max().unwrap_or(0)
}
