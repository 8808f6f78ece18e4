//! Answers under a schema: what may come next, where the answer may end, and that no schema panics or fills the memory.

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::language::sampling::random::Random;

const EOS: u32 = 300;

/// Every byte is a token, 256 to 299 are pieces that JSON is made of (twice over one part of a word), 300 and 301 end.
fn pieces() -> Vec<Vec<u8>> {
    let mut tokens: Vec<Vec<u8>> = (0..=255u8).map(|byte| vec![byte]).collect();
    for piece in [
        "{\"", "\": ", "\": \"", ", \"", "\"}", "[\"", "name", "na", "me", "age", "true", "false",
        "null", "12", "-3", "é", "0.5", "}]", "]}", "red", "green", " \n", "\\u00e9",
    ] {
        tokens.push(piece.as_bytes().to_vec());
    }
    tokens.resize(302, Vec::new());
    tokens
}

fn vocabulary() -> Vocabulary {
    Vocabulary::new(pieces(), 310, &[EOS, 301]).unwrap()
}

const PERSON: &str = r#"{"type": "object", "additionalProperties": false, "required": ["name", "age"], "properties": {
    "name": {"type": "string", "maxLength": 12},
    "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "colours": {"type": "array", "maxItems": 3, "items": {"enum": ["red", "green", null]}}}}"#;

/// Writes by drawing among what is allowed, until it ends.
fn write(constraint: &mut Constraint, seed: u64) -> String {
    let tokens = pieces();
    let mut random = Random::new(seed);
    let mut text = Vec::new();
    for _ in 0..2000 {
        let allowed: Vec<u32> = constraint.allowed().iter().collect();
        assert_eq!(allowed.len(), constraint.allowed().len());
        assert!(
            !allowed.is_empty(),
            "nothing may follow {:?}",
            String::from_utf8_lossy(&text)
        );
        let token = allowed[(random.unit() * allowed.len() as f64) as usize];
        constraint.accept(token).unwrap();
        if token >= EOS {
            break;
        }
        text.extend(&tokens[token as usize]);
        if constraint.finished() {
            break;
        }
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn whatever_is_drawn_follows_the_schema() {
    let vocabulary = vocabulary();
    for seed in 0..60 {
        let text = write(
            &mut Constraint::from_json_schema(&vocabulary, PERSON).unwrap(),
            seed,
        );
        let value: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let object = value.as_object().unwrap();
        assert!(
            object["name"].as_str().unwrap().chars().count() <= 12,
            "{text}"
        );
        assert!(
            (0..=150).contains(&object["age"].as_i64().unwrap()),
            "{text}"
        );
        if let Some(colours) = object.get("colours") {
            let colours = colours.as_array().unwrap();
            assert!(colours.len() <= 3);
            assert!(
                colours
                    .iter()
                    .all(|c| c.is_null() || c == "red" || c == "green"),
                "{text}"
            );
        }
        assert!(
            object
                .keys()
                .all(|key| ["name", "age", "colours"].contains(&key.as_str()))
        );
        // No white space but behind separators: nothing to go round in.
        assert_eq!(text.trim(), text);
    }
}

#[test]
fn the_answer_may_end_only_where_it_is_complete() {
    let mut constraint =
        Constraint::from_json_schema(&vocabulary(), r#"{"type": "integer"}"#).unwrap();
    assert!(!constraint.allowed().contains(EOS) && !constraint.allowed().contains(301));
    assert_eq!(
        constraint.accept(EOS),
        Err(ConstraintError::NotAllowed { token: EOS })
    );
    constraint.accept(u32::from(b'7')).unwrap();
    // 7 is a number, and so is 71.
    assert!(constraint.allowed().contains(EOS) && constraint.allowed().contains(301));
    assert!(constraint.allowed().contains(u32::from(b'1')) && !constraint.finished());
    constraint.accept(301).unwrap();
    assert!(constraint.finished());
    assert!(
        constraint
            .allowed()
            .iter()
            .all(|token| token == EOS || token == 301)
    );
    constraint.accept(EOS).unwrap();
}

#[test]
fn a_complete_object_is_finished_at_its_last_brace() {
    let schema = r#"{"type": "object", "properties": {}, "additionalProperties": false}"#;
    let mut constraint = Constraint::from_json_schema(&vocabulary(), schema).unwrap();
    constraint.accept(u32::from(b'{')).unwrap();
    assert!(!constraint.finished());
    constraint.accept(u32::from(b'}')).unwrap();
    assert!(constraint.finished());
}

#[test]
fn a_token_that_is_not_allowed_changes_nothing() {
    let mut constraint = Constraint::from_json_schema(&vocabulary(), PERSON).unwrap();
    let before: Vec<u32> = constraint.allowed().iter().collect();
    for token in [u32::from(b'x'), 305, 310, 5_000_000] {
        assert_eq!(
            constraint.accept(token),
            Err(ConstraintError::NotAllowed { token })
        );
    }
    assert_eq!(constraint.allowed().iter().collect::<Vec<_>>(), before);
    assert!(write(&mut constraint, 1).starts_with("{\""));
}

#[test]
fn white_space_can_be_asked_for() {
    let schema = r#"{"type": "array", "items": {"const": 1}, "minItems": 2,
        "x-guidance": {"whitespace_flexible": true}}"#;
    let mut constraint = Constraint::from_json_schema(&vocabulary(), schema).unwrap();
    constraint.accept(u32::from(b'[')).unwrap();
    assert!(constraint.allowed().contains(u32::from(b'\n')));
}

#[test]
fn schemas_that_cannot_be_followed_are_errors_of_one_line() {
    let vocabulary = vocabulary();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let nested = format!(
        "{}{{}}{}",
        r#"{"type":"array","items":"#.repeat(60),
        "}".repeat(60)
    );
    let wide = format!(r#"{{"enum": [{}]}}"#, vec!["\"x\""; 1_000_000].join(","));
    for (schema, expected) in [
        ("", "the schema is not JSON: "),
        ("{\"type\": ", "the schema is not JSON: "),
        (&deep, "the schema is not JSON: "),
        (
            "[1]",
            "the schema cannot be followed: it is an array, expected an object",
        ),
        (
            "3",
            "the schema cannot be followed: it is a number, expected an object",
        ),
        (r#"{"type": "strnig"}"#, "the schema cannot be followed: "),
        (r#"{"type": 5}"#, "the schema cannot be followed: "),
        (
            r#"{"$ref": "https://example.org/x.json"}"#,
            "the schema cannot be followed: ",
        ),
        (
            r##"{"$ref": "#/nowhere"}"##,
            "the schema cannot be followed: ",
        ),
        (
            r#"{"type": "string", "pattern": "("}"#,
            "the schema cannot be followed: ",
        ),
        (
            r#"{"not": {"type": "string"}}"#,
            "the schema cannot be followed: ",
        ),
        ("false", "the schema cannot be followed: "),
        (
            r#"{"type": "integer", "minimum": 5, "maximum": 3}"#,
            "the schema cannot be followed: ",
        ),
        (
            r#"{"type": "string", "x-guidance": 5}"#,
            "the schema cannot be followed: ",
        ),
        (
            &wide,
            "the schema has 4000011 bytes, expected 1048576 at most",
        ),
    ] {
        let error = Constraint::from_json_schema(&vocabulary, schema)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
        assert!(!error.contains('\n') && error.len() < 400, "{error}");
    }
    assert!(Constraint::from_json_schema(&vocabulary, &nested).is_ok());
    assert!(Constraint::from_json_schema(&vocabulary, "true").is_ok());
}

#[test]
fn a_schema_of_references_in_a_circle_is_named_and_a_recursive_one_is_not() {
    for (schema, named) in [
        (r##"{"$ref": "#"}"##, r##"{"$ref": "#"}"##),
        (
            r##"{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}"##,
            "$defs/",
        ),
        (
            r##"{"type": "object", "properties": {"x": {"$ref": "#/properties/x"}}}"##,
            "#/properties/x",
        ),
    ] {
        let said = Constraint::from_json_schema(&vocabulary(), schema)
            .unwrap_err()
            .to_string();
        assert!(said.contains(named), "{said}");
        assert!(said.contains("leads back to itself"), "{said}");
        assert!(!said.contains('\n'), "{said}");
    }
    // A list whose rest is such a list: it ends where its rest is null.
    let list = r##"{"$ref": "#/$defs/list", "$defs": {"list": {"anyOf": [{"type": "null"},
        {"type": "object", "properties": {"rest": {"$ref": "#/$defs/list"}}, "required": ["rest"]}]}}}"##;
    assert!(Constraint::from_json_schema(&vocabulary(), list).is_ok());
}

#[test]
fn schemas_of_absurd_size_end_and_do_not_fill_the_memory() {
    let vocabulary = vocabulary();
    for schema in [
        r#"{"type": "string", "minLength": 1000000000, "maxLength": 2000000000}"#,
        r#"{"type": "array", "items": {"type": "integer"}, "minItems": 100000000}"#,
        r##"{"$ref": "#"}"##,
        r#"{"type": "string", "pattern": "^((a{1,1000}){1,1000}){1,1000}$"}"#,
    ] {
        // Either is right: what counts is that it comes to an end.
        if let Ok(mut constraint) = Constraint::from_json_schema(&vocabulary, schema) {
            let first = constraint.allowed().iter().next().unwrap();
            let _ = constraint.accept(first);
        }
    }
}

#[test]
fn vocabularies_that_cannot_be_used_are_refused() {
    let refused = |tokens: Vec<Vec<u8>>, size, eos: &[u32]| {
        Vocabulary::new(tokens, size, eos).unwrap_err().to_string()
    };
    assert!(refused(pieces(), 200, &[5]).contains("more tokens than the model has logits (200)"));
    assert!(refused(pieces(), 310, &[]).contains("no token that ends an answer"));
    assert!(refused(pieces(), 310, &[310]).contains("is 310, expected one below 310"));
    assert!(refused(vec![Vec::new(); 4], 4, &[3]).contains("none of its tokens has bytes"));
    assert!(refused(pieces(), 1 << 30, &[3]).contains("expected 4194304 at most"));
    // A token of ten thousand spaces is no obstacle.
    let mut long = pieces();
    long.push(vec![b' '; 10_000]);
    assert!(Vocabulary::new(long, 310, &[EOS]).is_ok());
}

#[test]
fn a_set_of_tokens_rules_out_the_others() {
    for size in [1usize, 31, 32, 33, 64, 100] {
        let set = TokenSet::of((0..size as u32).filter(|t| t % 3 == 0).chain([1000]), size);
        let mut logits = vec![1.0; size + 5];
        set.rule_out_others(&mut logits);
        for (token, logit) in logits.iter().enumerate() {
            let inside = token < size && token % 3 == 0;
            assert_eq!(*logit == 1.0, inside, "{token} of {size}");
            assert_eq!(set.contains(token as u32), inside);
        }
    }
}

/// Keywords and values that fit some of them.
const KEYS: [&str; 14] = [
    "type",
    "items",
    "properties",
    "enum",
    "anyOf",
    "allOf",
    "minLength",
    "maximum",
    "multipleOf",
    "pattern",
    "required",
    "$ref",
    "const",
    "format",
];
const VALUES: [&str; 16] = [
    "\"string\"",
    "\"object\"",
    "\"number\"",
    "[]",
    "[\"a\", 1]",
    "{}",
    "-1",
    "5",
    "0",
    "1e99",
    "null",
    "\"#\"",
    "\"(a|b)+\"",
    "{\"type\": \"array\"}",
    "[{\"type\": \"string\"}, {}]",
    "\"date-time\"",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_schema_panics(parts in proptest::collection::vec((0..KEYS.len(), 0..VALUES.len()), 0..4)) {
        let written = |&(key, value): &(usize, usize)| format!("\"{}\": {}", KEYS[key], VALUES[value]);
        let parts: Vec<String> = parts.iter().map(written).collect();
        let schema = format!("{{{}}}", parts.join(", "));
        if let Ok(mut constraint) = Constraint::from_json_schema(&vocabulary(), &schema) {
            for _ in 0..20 {
                let Some(token) = constraint.allowed().iter().next() else { break };
                if constraint.accept(token).is_err() { break }
            }
        }
    }
}
