//! Small language models: what their files mean, prompt to tokens, tokens to text.
//!
//! | module | what it answers |
//! | --- | --- |
//! | [`architecture`] | what does each family compute? |
//! | [`lower`] | how is that written as a graph for a target (flavour) and a precision (recipe)? |
//! | [`import`] | GGUF file → model folder |
//! | [`synth`] | full-size models with random weights, to measure a device with |
//! | [`folder`] | what is in a model folder, ours or published? |
//! | [`decoder`] | prompt chunks and decode steps on a session, with the key/value cache |
//! | [`tokenizer`] | text ↔ tokens |
//! | [`template`] | a conversation → the prompt its model was trained on |
//! | [`text`] | tokens → text to show: whole characters, no part of a stop string |
//! | [`sampling`] | logits → the next token |
//! | [`constraint`] | which tokens may come next, where the answer must be JSON |

pub mod architecture;
pub mod constraint;
pub mod decoder;
pub mod folder;
pub mod import;
pub mod lower;
pub mod sampling;
pub mod synth;
pub mod template;
pub mod text;
pub mod tokenizer;
