//! A tokenizer laid out like Phi-3's (SentencePiece, 32 064 tokens): `<unk>`, `<s>`, `</s>`, the bytes, pieces of words,
//! and the marks of a conversation among the last 64. Its pieces are made up of letters in order, so an English word
//! takes two or three of them, about what the real ones take.

use crate::gguf::Metadata;

/// Tokens behind the pieces: 32 000 to 32 063 of the real one.
const LAST: usize = 64;
/// Tokens ahead of the pieces: three and the bytes.
const FIRST: usize = 3 + 256;
/// Every character that is not a letter would be a token of three to nine bytes else.
const SIGNS: &str = "▁.,;:!?'\"-()0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// The fewest tokens that make a tokenizer: signs and letters.
pub(super) const FEWEST: usize = FIRST + 48 + 26 + LAST;

/// Types of `tokenizer.ggml.token_type`.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const UNUSED: i32 = 5;
const BYTE: i32 = 6;

/// The marks of the real one, by how far they are behind 31 999, its last piece.
const MARKS: [(usize, &str); 5] = [
    (0, "<|endoftext|>"),
    (1, "<|assistant|>"),
    (6, "<|system|>"),
    (7, "<|end|>"),
    (10, "<|user|>"),
];

/// The form of a conversation that Phi-3's authors document.
const TEMPLATE: &str = "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + \
                        '<|end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}";

/// Writes a tokenizer of so many tokens into the metadata.
pub(super) fn describe(metadata: &mut Metadata, vocabulary: usize) {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    let mut types = vec![UNKNOWN, CONTROL, CONTROL];
    tokens.extend((0..=255_u8).map(|byte| format!("<0x{byte:02X}>")));
    types.resize(FIRST, BYTE);
    let pieces = vocabulary.saturating_sub(FIRST + LAST);
    tokens.extend(words().take(pieces));
    types.resize(FIRST + pieces, NORMAL);
    let marks = tokens.len();
    for n in 0..LAST {
        let mark = MARKS.iter().find(|(at, _)| *at == n);
        let (token, kind) = match mark {
            Some((_, mark)) => ((*mark).to_owned(), CONTROL),
            None => (format!("[PAD{}]", marks + n), UNUSED),
        };
        tokens.push(token);
        types.push(kind);
    }
    // SentencePiece scores byte pair encodings by the order in which they were found.
    let scores = (0..tokens.len()).map(|id| -(id.saturating_sub(FIRST) as f32));
    metadata.insert("tokenizer.ggml.model", "llama");
    metadata.insert("tokenizer.ggml.pre", "default");
    metadata.insert("tokenizer.ggml.scores", scores.collect::<Vec<f32>>());
    metadata.insert("tokenizer.ggml.tokens", tokens);
    metadata.insert("tokenizer.ggml.token_type", types);
    metadata.insert("tokenizer.ggml.bos_token_id", 1_u32);
    metadata.insert("tokenizer.ggml.eos_token_id", marks as u32);
    metadata.insert("tokenizer.ggml.eot_token_id", marks as u32 + 7);
    metadata.insert("tokenizer.ggml.unknown_token_id", 0_u32);
    metadata.insert("tokenizer.ggml.padding_token_id", marks as u32);
    metadata.insert("tokenizer.ggml.add_bos_token", true);
    metadata.insert("tokenizer.chat_template", TEMPLATE);
}

/// Signs, letters, then all words of two letters, the same at the beginning of a word, all of three, and so on.
fn words() -> impl Iterator<Item = String> {
    let signs = SIGNS.chars().map(String::from);
    let longer = (1..).flat_map(|length: u32| {
        let all = move || (0..26_usize.pow(length)).map(move |n| letters(n, length));
        all().chain(all().map(|word| format!("▁{word}")))
    });
    signs.chain(longer)
}

/// The word number `n` of so many letters, in the order of a dictionary.
fn letters(n: usize, length: u32) -> String {
    (0..length)
        .rev()
        .map(|place| char::from(b'a' + (n / 26_usize.pow(place) % 26) as u8))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::tokenizer::{GgufTokenizer, Special};

    fn of(vocabulary: usize) -> Metadata {
        let mut metadata = Metadata::default();
        metadata.insert("general.architecture", "phi3");
        describe(&mut metadata, vocabulary);
        metadata
    }

    #[test]
    fn the_fewest_tokens_are_the_signs_the_letters_and_what_is_special() {
        assert_eq!(SIGNS.chars().count(), 48);
        let metadata = of(FEWEST);
        let tokens = metadata.strs("tokenizer.ggml.tokens").unwrap();
        assert_eq!(tokens.len(), FEWEST);
        assert_eq!(
            tokens[FIRST + 48..FEWEST - LAST].concat(),
            "abcdefghijklmnopqrstuvwxyz"
        );
    }

    // The ids are those of Phi-3's own added_tokens.json.
    #[test]
    fn a_conversation_is_marked_with_the_ids_of_the_real_one() {
        let parts = GgufTokenizer::from_metadata(&of(32_064)).unwrap();
        assert_eq!(parts.tokens.len(), 32_064);
        let tokenizer = parts.rebuild().unwrap().tokenizer().unwrap();
        let ids = tokenizer
            .encode("<|user|>\nhi<|end|>\n<|assistant|>\n", Special::Parse)
            .unwrap();
        assert!(ids.contains(&32_010) && ids.contains(&32_007), "{ids:?}");
        assert_eq!(*ids.last().unwrap(), 32_001);
    }

    #[test]
    fn english_takes_about_as_many_tokens_as_in_the_real_one() {
        let parts = GgufTokenizer::from_metadata(&of(32_064)).unwrap();
        let tokenizer = parts.rebuild().unwrap().tokenizer().unwrap();
        let text = "the quick brown fox jumps over the lazy dog and runs into the forest";
        let ids = tokenizer.encode(text, Special::Plain).unwrap();
        let per_token = text.len() as f64 / ids.len() as f64;
        assert!((2.0..5.0).contains(&per_token), "{per_token}: {ids:?}");
    }
}
