//! How the gpt2 family cuts text before merging: GGUF names it by a word, `tokenizer.ggml.pre`.
//!
//! The expressions are those of the models' own `tokenizer.json` where llama.cpp's `llama-vocab.cpp` quotes them, else
//! its own; the groups of names are its groups. A name that is not here is refused: with the wrong cuts a model still
//! answers, only worse, and nobody finds out why.

use serde_json::{Value, json};

/// GPT-2's own expression is built into `ByteLevel`.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
/// Of `deepseek-llm`: cased letters, in the ranges of its file.
const DEEPSEEK_LETTERS: &str = concat!(
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼ",
    r"ιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
);

/// What a name of `tokenizer.ggml.pre` means.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pre {
    /// The `pre_tokenizer` of `tokenizer.json`.
    pub(super) pre_tokenizer: Value,
    /// Its `normalizer`.
    pub(super) normalizer: Value,
    /// A whole word that is a token is taken, whatever the merges say.
    pub(super) ignore_merges: bool,
    /// Whether BOS comes first where the file does not say.
    pub(super) adds_bos: bool,
}

/// `None`: an unknown name.
pub(super) fn pre(name: &str) -> Option<Pre> {
    let plain = |pre_tokenizer: Value| Pre {
        pre_tokenizer,
        normalizer: Value::Null,
        ignore_merges: false,
        adds_bos: false,
    };
    let known = match name {
        "gpt-2" | "phi-2" | "olmo" | "mpt" | "jais" | "roberta-bpe" | "gigachat" | "jina-es"
        | "jina-de" | "jina-v2-es" | "jina-v2-de" | "jina-v2-code" => plain(byte_level(true)),
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" | "exaone" | "minerva-7b" => {
            let digits = json!({"type": "Digits", "individual_digits": true});
            plain(json!({"type": "Sequence", "pretokenizers": [digits, byte_level(true)]}))
        }
        "llama3" | "llama-v3" | "llama-bpe" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0"
        | "lfm2" => Pre {
            ignore_merges: true,
            adds_bos: true,
            ..plain(cuts(&[LLAMA3]))
        },
        "dbrx" | "smaug-bpe" | "chatglm-bpe" | "glm4" => plain(cuts(&[LLAMA3])),
        "qwen2" | "deepseek-r1-qwen" | "megrez" => Pre {
            normalizer: json!({"type": "NFC"}),
            ..plain(cuts(&[QWEN2]))
        },
        "stablelm2" | "hunyuan" => plain(cuts(&[QWEN2])),
        "tekken" => Pre {
            ignore_merges: true,
            adds_bos: true,
            ..plain(cuts(&[TEKKEN]))
        },
        "gpt-4o" | "llama4" => plain(cuts(&[GPT4O])),
        "deepseek-llm" => plain(cuts(&[
            r"[\r\n]",
            DEEPSEEK_LETTERS,
            r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
            r"\s+$",
            r"[一-龥ࠀ-一가-퟿]+",
            r"\p{N}+",
        ])),
        "deepseek-coder" => plain(cuts(&[
            r"[\r\n]",
            r"\s?\p{L}+",
            r"\s?\p{P}+",
            r"[一-龥ࠀ-一가-퟿]+",
            r"\p{N}",
        ])),
        "deepseek-v3" => plain(cuts(&[
            r"\p{N}{1,3}",
            r"[一-龥぀-ゟ゠-ヿ]+",
            concat!(
                r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"##,
                r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
            ),
        ])),
        "falcon" => plain(with_gpt2(
            &[r"[\p{P}\$\+<=>\^~\|`]+"],
            &[r"[0-9][0-9][0-9]"],
        )),
        "default" => plain(with_gpt2(
            &[r"[\p{P}\$\+<=>\^~\|]+"],
            &[r"\p{N}+", r"[0-9][0-9][0-9]"],
        )),
        _ => return None,
    };
    Some(known)
}

/// GPT-2's expression, as `ByteLevel` holds it.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

fn with_gpt2(before: &[&str], after: &[&str]) -> Value {
    cuts(&[before, &[GPT2], after].concat())
}

/// Each expression cuts what the one before it left; then bytes become printable characters.
fn cuts(expressions: &[&str]) -> Value {
    let split = |expression: &&str| json!({"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": false});
    let mut steps: Vec<Value> = expressions.iter().map(split).collect();
    steps.push(byte_level(false));
    json!({"type": "Sequence", "pretokenizers": steps})
}

/// Every byte as a printable character; with GPT-2's cuts before that, if wanted.
pub(super) fn byte_level(cut: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": cut})
}
