//! What a token's bytes are: the `decoder` of a `tokenizer.json`, applied to one token.
//!
//! The crate decodes whole lists of tokens to text. Streaming and constraints need the raw bytes of each token, because
//! a character may be split across tokens; so the two decoders that byte pair models use are read as rules here:
//! byte-level (every byte is written as a printable character, GPT-2's table) and SentencePiece's (`▁` is a space,
//! `<0x0A>` a byte, a space at the very start is dropped).

use serde_json::Value;

/// The rules of a decoder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Decoding {
    byte_level: bool,
    byte_fallback: bool,
    replace: Vec<(String, String)>,
    /// One space at the start of the whole text is not part of it.
    pub(super) drops_first_space: bool,
}

impl Decoding {
    /// From the decoder's JSON; one without a rule known here leaves the tokens' texts as they are.
    pub(super) fn from_json(decoder: &Value) -> Self {
        let mut rules = Self::default();
        rules.add(decoder);
        rules
    }

    fn add(&mut self, decoder: &Value) {
        let text = |key: &str| decoder.get(key).and_then(Value::as_str);
        match text("type") {
            Some("Sequence") => {
                let parts = decoder.get("decoders").and_then(Value::as_array);
                parts.into_iter().flatten().for_each(|part| self.add(part));
            }
            Some("ByteLevel") => self.byte_level = true,
            Some("ByteFallback") => self.byte_fallback = true,
            Some("Replace") => {
                let pattern = decoder
                    .get("pattern")
                    .and_then(|pattern| pattern.get("String"));
                if let (Some(from), Some(to)) = (pattern.and_then(Value::as_str), text("content"))
                    && !from.is_empty()
                {
                    self.replace.push((from.to_owned(), to.to_owned()));
                }
            }
            Some("Metaspace") => {
                let mark = text("replacement").unwrap_or("▁");
                self.replace.push((mark.to_owned(), " ".to_owned()));
                self.drops_first_space |= text("prepend_scheme") != Some("never");
            }
            Some("Strip") => {
                let start = decoder.get("start").and_then(Value::as_u64);
                self.drops_first_space |=
                    text("content") == Some(" ") && start.is_some_and(|count| count > 0);
            }
            _ => {}
        }
    }

    pub(super) fn is_byte_level(&self) -> bool {
        self.byte_level
    }

    /// The bytes that a token with this text stands for.
    pub(super) fn bytes(&self, token: &str) -> Vec<u8> {
        if self.byte_level {
            let bytes: Option<Vec<u8>> = token.chars().map(byte_of_char).collect();
            return bytes.unwrap_or_else(|| token.as_bytes().to_vec());
        }
        if self.byte_fallback
            && let Some(byte) = byte_of_name(token)
        {
            return vec![byte];
        }
        let mut text = token.to_owned();
        for (from, to) in &self.replace {
            text = text.replace(from, to);
        }
        text.into_bytes()
    }
}

/// `<0x0A>` → 10.
pub(super) fn byte_of_name(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

/// GPT-2's table backwards (`bytes_to_unicode` in its `encoder.py`): printable Latin-1 stands for itself, the other
/// bytes, in order, are U+0100 and up.
fn byte_of_char(character: char) -> Option<u8> {
    let code = u32::from(character);
    match code {
        0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF => u8::try_from(code).ok(),
        0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        0x121..=0x142 => u8::try_from(code - 0x121 + 0x7F).ok(),
        0x143 => Some(0xAD),
        _ => None,
    }
}
