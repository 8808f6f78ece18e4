//! Conversations come out in the prompt formats that the authors of Llama 3, Phi-3, Qwen and Gemma publish.
//!
//! The templates are ours, not theirs (`fixture/formats`), written with the parts of Jinja that theirs are made of. What
//! they must give was written by hand from the published formats: Meta's "Llama 3.1 prompt format" page, the model
//! cards of Phi-3-mini-4k-instruct and Qwen2.5-0.5B-Instruct (ChatML), and Google's "Gemma formatting and system
//! instructions". Where those begin with a token of their own, the test's tokenizer has `<s>`.

use std::fs;
use std::time::{Duration, UNIX_EPOCH};

use firstword_models::language::template::{Message, Rendering, Role, Template};

mod bytes;

/// 2024-07-26, as in Meta's example.
const DAY: u64 = 1_721_952_000;

fn render(name: &str, messages: &[(Role, &str)], add_generation_prompt: bool) -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    let path = format!("{folder}/tests/fixture/formats/{name}.jinja");
    let source = fs::read_to_string(path).expect("a fixture");
    let messages: Vec<Message> = messages
        .iter()
        .map(|&(role, content)| Message::new(role, content))
        .collect();
    let rendering = Rendering {
        add_generation_prompt,
        now: UNIX_EPOCH + Duration::from_secs(DAY),
    };
    let prompt = Template::from_source(&source)
        .expect("Jinja")
        .render(&messages, &bytes::tokenizer(), rendering)
        .expect("rendered");
    prompt.text().to_owned()
}

const TALK: [(Role, &str); 4] = [
    (Role::System, "Be brief."),
    (Role::User, " Hi! "),
    (Role::Assistant, "<think>\nhm\n</think>\n\nHello."),
    (Role::User, "Why?"),
];

#[test]
fn llama_3() {
    assert_eq!(
        render("llama3", &TALK, true),
        "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n\
         Today Date: 26 Jul 2024\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi!<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\n<think>\nhm\n</think>\n\nHello.<|eot_id|>\
         <|start_header_id|>user<|end_header_id|>\n\nWhy?<|eot_id|>\
         <|start_header_id|>assistant<|end_header_id|>\n\n"
    );
}

#[test]
fn phi_3() {
    assert_eq!(
        render("phi3", &TALK[..2], true),
        "<|system|>\nBe brief.<|end|>\n<|user|>\n Hi! <|end|>\n<|assistant|>\n"
    );
    assert_eq!(
        render("phi3", &[(Role::User, "a"), (Role::Assistant, "b")], false),
        "<|user|>\na<|end|>\n<|assistant|>\nb<|end|>\n</s>"
    );
}

#[test]
fn qwen() {
    // The thoughts of a turn before the last question are not shown again (Qwen3's model card).
    assert_eq!(
        render("qwen", &TALK, true),
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi! <|im_end|>\n\
         <|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
    );
    assert_eq!(
        render("qwen", &[(Role::User, "Hi")], false),
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    );
}

#[test]
fn gemma() {
    assert_eq!(
        render("gemma", &TALK, true),
        "<s><start_of_turn>user\nBe brief.\n\nHi!<end_of_turn>\n\
         <start_of_turn>model\n<think>\nhm\n</think>\n\nHello.<end_of_turn>\n\
         <start_of_turn>user\nWhy?<end_of_turn>\n<start_of_turn>model\n"
    );
    // Two questions in a row are refused by the template, and become one.
    assert_eq!(
        render("gemma", &[(Role::User, "one"), (Role::User, "two")], true),
        "<s><start_of_turn>user\none\n\ntwo<end_of_turn>\n<start_of_turn>model\n"
    );
}
