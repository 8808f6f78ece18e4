//! Moonshine's `tokenizer.bin`: from token numbers to text.
//!
//! The file is a run of records, one per token in the order of their numbers: a length (one byte
//! below 128; otherwise two bytes b0, b1 with length = b1·128 + b0 − 128) and that many bytes.
//! U+2581 (▁) stands for a space. Tokens 3–258 are the single bytes 0–255, from which the rarest
//! characters are put together.

/// U+2581, which stands for a space.
const SPACE: &[u8] = "▁".as_bytes();
/// Longest piece accepted. The longest of Moonshine's is 48 bytes.
const LONGEST_PIECE: usize = 1024;
/// The first tokens: unknown, begin, end.
const SPECIAL: u32 = 3;

/// Begin of a transcript; the decoder's first input.
pub const BEGIN: u32 = 1;
/// End of a transcript.
pub const END: u32 = 2;

/// Token numbers to text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokenizer {
    bytes: Vec<u8>,
    /// Piece i is `bytes[ends[i − 1]..ends[i]]`.
    ends: Vec<u32>,
    /// The first of the `<<ST_n>>` tokens, which stand for nothing that was said.
    control: u32,
}

/// Why a file is not a tokenizer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    /// The file ends within a record.
    #[error("cut off: token {token} at byte {offset} needs {needs} bytes, {left} are left")]
    CutOff {
        /// The token whose record is not whole.
        token: usize,
        /// Where its bytes would start.
        offset: usize,
        /// Bytes needed.
        needs: usize,
        /// Bytes there.
        left: usize,
    },
    /// No vocabulary has pieces of this length.
    #[error(
        "not a tokenizer: token {token} at byte {offset} claims {length} bytes, at most {LONGEST_PIECE} are expected"
    )]
    TooLong {
        /// The token.
        token: usize,
        /// Where its bytes would start.
        offset: usize,
        /// The length it claims.
        length: usize,
    },
    /// The vocabulary does not begin with the special tokens and the 256 bytes.
    #[error(
        "not a tokenizer: expected <unk>, <s>, </s> and the 256 single bytes first, found {tokens} tokens that differ from this at number {at}"
    )]
    NotMoonshine {
        /// Tokens in the file.
        tokens: usize,
        /// The first number that is not as expected.
        at: usize,
    },
}

impl Tokenizer {
    /// Reads the contents of a `tokenizer.bin`.
    ///
    /// # Errors
    ///
    /// [`TokenizerError`] if a record is cut off or absurd, or the vocabulary does not begin as
    /// Moonshine's does.
    pub fn parse(file: &[u8]) -> Result<Self, TokenizerError> {
        let mut bytes = Vec::with_capacity(file.len());
        let mut ends = Vec::new();
        let mut at = 0;
        let cut_off = |token, offset, needs: usize| TokenizerError::CutOff {
            token,
            offset,
            needs,
            left: file.len().saturating_sub(offset),
        };
        while let Some(&first) = file.get(at) {
            let token = ends.len();
            at += 1;
            let mut length = usize::from(first);
            if length >= 128 {
                let second = *file.get(at).ok_or_else(|| cut_off(token, at, 1))?;
                at += 1;
                length = usize::from(second) * 128 + length - 128;
            }
            if length > LONGEST_PIECE {
                return Err(TokenizerError::TooLong {
                    token,
                    offset: at,
                    length,
                });
            }
            let piece = file
                .get(at..at + length)
                .ok_or_else(|| cut_off(token, at, length))?;
            bytes.extend_from_slice(piece);
            ends.push(bytes.len() as u32);
            at += length;
        }
        let mut tokenizer = Self {
            control: ends.len() as u32,
            bytes,
            ends,
        };
        if let Some(at) = tokenizer.first_unlike_moonshine() {
            return Err(TokenizerError::NotMoonshine {
                tokens: tokenizer.len(),
                at,
            });
        }
        while tokenizer.control > SPECIAL
            && tokenizer
                .piece(tokenizer.control - 1)
                .is_some_and(|piece| piece.starts_with(b"<<ST_"))
        {
            tokenizer.control -= 1;
        }
        Ok(tokenizer)
    }

    fn first_unlike_moonshine(&self) -> Option<usize> {
        let special: [&[u8]; 3] = [b"<unk>", b"<s>", b"</s>"];
        let single = (0..=u8::MAX).map(|byte| [byte]);
        (0..SPECIAL + 256).map(|token| token as usize).find(|&at| {
            let piece = self.piece(at as u32);
            match special.get(at) {
                Some(expected) => piece != Some(expected),
                None => piece != single.clone().nth(at - 3).as_ref().map(|b| &b[..]),
            }
        })
    }

    /// How many tokens there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no token at all; never so after [`Tokenizer::parse`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// A token's bytes as the file has them.
    #[must_use]
    pub fn piece(&self, token: u32) -> Option<&[u8]> {
        let token = token as usize;
        let end = *self.ends.get(token)? as usize;
        let start = match token {
            0 => 0,
            _ => self.ends[token - 1] as usize,
        };
        Some(&self.bytes[start..end])
    }

    /// Whether this token stands for text (and not for begin, end, or a control mark).
    #[must_use]
    pub fn is_text(&self, token: u32) -> bool {
        (SPECIAL..self.control).contains(&token)
    }

    /// Whether this token begins a new word.
    #[must_use]
    pub fn starts_word(&self, token: u32) -> bool {
        self.is_text(token) && self.piece(token).is_some_and(|p| p.starts_with(SPACE))
    }

    /// The text of these tokens, without space around it. Bytes that are no UTF-8 (half a
    /// character at the end of a partial) become U+FFFD; tokens that stand for no text are left out.
    #[must_use]
    pub fn text(&self, tokens: &[u32]) -> String {
        let mut bytes = Vec::with_capacity(tokens.len() * 4);
        for piece in tokens
            .iter()
            .filter(|&&token| self.is_text(token))
            .filter_map(|&token| self.piece(token))
        {
            push_with_spaces(piece, &mut bytes);
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        text.trim().to_owned()
    }
}

/// Appends a piece with every ▁ turned into a space.
fn push_with_spaces(mut piece: &[u8], bytes: &mut Vec<u8>) {
    while let Some((&byte, rest)) = piece.split_first() {
        if let Some(rest) = piece.strip_prefix(SPACE) {
            bytes.push(b' ');
            piece = rest;
        } else {
            bytes.push(byte);
            piece = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file with the special tokens, the bytes, and these pieces from number 259 on.
    fn file(pieces: &[&[u8]]) -> Vec<u8> {
        let mut file = Vec::new();
        for piece in [&b"<unk>"[..], b"<s>", b"</s>"] {
            file.push(piece.len() as u8);
            file.extend_from_slice(piece);
        }
        for byte in 0..=u8::MAX {
            file.extend_from_slice(&[1, byte]);
        }
        for piece in pieces {
            if piece.len() < 128 {
                file.push(piece.len() as u8);
            } else {
                file.push((piece.len() % 128 + 128) as u8);
                file.push((piece.len() / 128) as u8);
            }
            file.extend_from_slice(piece);
        }
        file
    }

    #[test]
    fn words_keep_their_spaces_and_lose_the_first() {
        let t = Tokenizer::parse(&file(&["▁it".as_bytes(), "▁was".as_bytes(), b"n't"])).unwrap();
        assert_eq!(t.text(&[BEGIN, 259, 260, 261, END]), "it wasn't");
        assert!(t.starts_word(260) && !t.starts_word(261));
    }

    #[test]
    fn a_character_from_single_bytes_is_put_together() {
        // "é" is C3 A9 in UTF-8 (RFC 3629); byte b is token b + 3.
        let t = Tokenizer::parse(&file(&["▁caf".as_bytes()])).unwrap();
        assert_eq!(t.text(&[259, 0xC3 + 3, 0xA9 + 3]), "café");
    }

    #[test]
    fn half_a_character_does_not_break_the_text() {
        let t = Tokenizer::parse(&file(&["▁caf".as_bytes()])).unwrap();
        assert_eq!(t.text(&[259, 0xC3 + 3]), "caf\u{FFFD}");
    }

    #[test]
    fn control_marks_are_not_printed() {
        let t = Tokenizer::parse(&file(&[b"<<ST_0>>", b"<<ST_1>>"])).unwrap();
        assert_eq!(t.text(&[259, 260]), "");
        assert!(!t.is_text(259));
    }

    #[test]
    fn a_piece_of_two_length_bytes_is_read_whole() {
        let long = vec![b'x'; 300];
        let t = Tokenizer::parse(&file(&[&long, b"y"])).unwrap();
        assert_eq!(t.piece(259), Some(&long[..]));
        assert_eq!(t.piece(260), Some(&b"y"[..]));
    }

    #[test]
    fn a_cut_file_says_where() {
        let whole = file(&[b"abc"]);
        let error = Tokenizer::parse(&whole[..whole.len() - 1]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "cut off: token 259 at byte {} needs 3 bytes, 2 are left",
                whole.len() - 3
            )
        );
    }

    #[test]
    fn another_kind_of_file_is_refused() {
        for wrong in [
            &b""[..],
            b"\x05hello",
            &[0x80, 0xff],
            b"{\"model\": {\"type\": \"BPE\"}}",
        ] {
            assert!(Tokenizer::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000), tokens in proptest::collection::vec(any::<u32>(), 0..20)) {
            if let Ok(tokenizer) = Tokenizer::parse(&bytes) {
                let _ = tokenizer.text(&tokens);
            }
        }

        #[test]
        fn a_damaged_file_never_panics(at in 0usize..800, byte: u8, cut in 0usize..800, tokens in proptest::collection::vec(0u32..300, 0..20)) {
            let mut bytes = file(&[b"abc", "▁de".as_bytes()]);
            let n = bytes.len();
            bytes[at % n] = byte;
            bytes.truncate(n - cut % n);
            if let Ok(tokenizer) = Tokenizer::parse(&bytes) {
                let _ = tokenizer.text(&tokens);
            }
        }

        #[test]
        fn any_text_spelt_in_bytes_comes_back(text in "\\PC{0,40}") {
            let tokenizer = Tokenizer::parse(&file(&[])).unwrap();
            let tokens: Vec<u32> = text.bytes().map(|byte| u32::from(byte) + 3).collect();
            prop_assert_eq!(tokenizer.text(&tokens), text.trim());
        }
    }
}
