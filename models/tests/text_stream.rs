//! Streamed text: nothing lost, no half characters, no part of a stop string.

use std::sync::Arc;

use firstword_models::language::text::TextStream;
use firstword_models::language::tokenizer::{GgufTokenizer, Tokenizer};
use proptest::prelude::*;

/// A SentencePiece vocabulary by hand: 0–2 control, 3–258 bytes, then words.
fn byte_tokens(add_space_prefix: bool) -> Arc<Tokenizer> {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(str::to_owned).to_vec();
    let mut types = vec![2, 3, 3];
    for byte in 0..256 {
        tokens.push(format!("<0x{byte:02X}>"));
        types.push(6);
    }
    for word in [
        "▁", "a", "b", "c", "▁a", "ab", "bc", "abc", "é", "😀", "</", "stop", "▁▁",
    ] {
        tokens.push(word.to_owned());
        types.push(1);
    }
    let parts = GgufTokenizer {
        architecture: "llama".to_owned(),
        model: "llama".to_owned(),
        scores: (0..tokens.len()).map(|id| -(id as f32)).collect(),
        types,
        tokens,
        bos: Some(1),
        eos: Some(2),
        unknown: Some(0),
        add_space_prefix: Some(add_space_prefix),
        ..GgufTokenizer::default()
    };
    Arc::new(
        parts
            .rebuild()
            .expect("consistent")
            .tokenizer()
            .expect("readable"),
    )
}

fn streamed(
    tokenizer: &Arc<Tokenizer>,
    tokens: &[u32],
    stops: &[&str],
) -> (Vec<String>, Option<String>) {
    let stops: Vec<String> = stops.iter().map(|&stop| stop.to_owned()).collect();
    let mut stream = TextStream::new(Arc::clone(tokenizer), &stops);
    let mut pieces: Vec<String> = tokens.iter().map(|&token| stream.push(token)).collect();
    pieces.push(stream.finish());
    (pieces, stream.stopped().map(str::to_owned))
}

#[test]
fn a_character_in_four_tokens_appears_whole() {
    let tokenizer = byte_tokens(false);
    // U+1F642 is F0 9F 99 82 in UTF-8; byte b is token b + 3.
    let (pieces, _) = streamed(&tokenizer, &[0xF0 + 3, 0x9F + 3, 0x99 + 3, 0x82 + 3], &[]);
    assert_eq!(pieces, ["", "", "", "🙂", ""]);
    // Cut off: the three bytes are one U+FFFD, said at the end and not lost.
    let (pieces, _) = streamed(&tokenizer, &[0xF0 + 3, 0x9F + 3, 0x99 + 3], &[]);
    assert_eq!(pieces, ["", "", "", "\u{FFFD}"]);
    // Bytes that no character begins with do not wait.
    let (pieces, _) = streamed(&tokenizer, &[0xFF + 3, 0x61 + 3], &[]);
    assert_eq!(pieces, ["\u{FFFD}", "a", ""]);
}

#[test]
fn the_first_space_is_dropped_only_where_the_vocabulary_put_it() {
    let with_prefix = byte_tokens(true);
    let space_a = with_prefix.id("▁a").expect("a word");
    assert_eq!(
        streamed(&with_prefix, &[space_a, space_a], &[]).0.concat(),
        "a a"
    );
    assert_eq!(
        streamed(&byte_tokens(false), &[space_a, space_a], &[])
            .0
            .concat(),
        " a a"
    );
    let mut stream = TextStream::new(with_prefix, &[]).continuing();
    assert_eq!(stream.push(space_a), " a");
}

#[test]
fn no_part_of_a_stop_string_is_shown_and_the_first_complete_one_counts() {
    let tokenizer = byte_tokens(false);
    let token = |name: &str| tokenizer.id(name).expect("a token");
    let (pieces, stopped) = streamed(
        &tokenizer,
        &[token("a"), token("</"), token("stop"), 0x3E + 3, token("b")],
        &["</stop>"],
    );
    assert_eq!(pieces, ["a", "", "", "", "", ""]);
    assert_eq!(stopped.as_deref(), Some("</stop>"));
    // It was none after all: what was held back comes out.
    let (pieces, stopped) = streamed(
        &tokenizer,
        &[token("</"), token("stop"), token("b")],
        &["</stop>"],
    );
    assert_eq!((pieces.concat().as_str(), stopped), ("</stopb", None));
    // "bc" is complete before "abcb".
    let (pieces, stopped) = streamed(
        &tokenizer,
        &[token("ab"), token("c"), token("b")],
        &["abcb", "bc", ""],
    );
    assert_eq!(
        (pieces.concat().as_str(), stopped.as_deref()),
        ("a", Some("bc"))
    );
}

#[test]
fn control_tokens_are_not_shown() {
    let tokenizer = byte_tokens(false);
    let a = tokenizer.id("a").expect("a word");
    assert_eq!(streamed(&tokenizer, &[1, a, 0, 2], &[]).0.concat(), "a");
}

/// Where the text is cut: at the stop string that is complete first; of two complete at once, the longer.
fn cut<'t>(text: &'t str, stops: &[String]) -> &'t str {
    for end in 0..=text.len() {
        let starts = stops.iter().filter(|stop| !stop.is_empty());
        let starts = starts.filter(|stop| text.as_bytes()[..end].ends_with(stop.as_bytes()));
        if let Some(start) = starts.map(|stop| end - stop.len()).min() {
            return &text[..start];
        }
    }
    text
}

proptest! {
    #[test]
    fn all_pieces_together_are_the_text_up_to_the_first_stop_string(
        tokens in prop::collection::vec(prop_oneof![3 => 259_u32..272, 1 => 0_u32..275], 0..60),
        stops in prop::collection::vec("[abc é]{0,4}", 0..4),
        prefix in any::<bool>(),
    ) {
        let tokenizer = byte_tokens(prefix);
        let whole = tokenizer.decode(&tokens);
        let mut stream = TextStream::new(tokenizer, &stops);
        let mut shown = String::new();
        for &token in &tokens {
            shown.push_str(&stream.push(token));
            // What is on the screen is never taken back.
            prop_assert!(cut(&whole, &stops).starts_with(&shown));
        }
        shown.push_str(&stream.finish());
        prop_assert_eq!(&shown, cut(&whole, &stops));
        prop_assert_eq!(stream.stopped().is_some(), shown.len() < whole.len() || cut(&whole, &stops).len() < whole.len());
    }
}
