//! Messages of several turns → the next prompt, as tokens, so that what is cached of the last turn fits.
//!
//! A reply's text, cut into tokens again, can give others than the model chose, and then the cache of the last turn
//! would not fit from there on. So where the new prompt's text begins with the last one and its reply, those keep the
//! tokens that they had, and only the rest is cut.

use firstword_models::language::tokenizer::Prompt;

/// Messages written as the model was trained on them.
pub trait Rendered: Sized {
    /// The text.
    fn text(&self) -> &str;
    /// The same without its first bytes.
    fn after(&self, bytes: usize) -> Self;
}

impl Rendered for String {
    fn text(&self) -> &str {
        self
    }

    fn after(&self, bytes: usize) -> Self {
        self[bytes..].to_owned()
    }
}

impl Rendered for Prompt {
    fn text(&self) -> &str {
        Prompt::text(self)
    }

    fn after(&self, bytes: usize) -> Self {
        Prompt::after(self, bytes)
    }
}

/// The messages so far. `M` is a message in the form that the template takes.
#[derive(Clone, Debug)]
pub struct Conversation<M> {
    opening: Vec<M>,
    messages: Vec<M>,
    /// The last prompt and its reply: text and tokens.
    text: String,
    tokens: Vec<u32>,
    /// How long both were before the last question, where they were kept.
    before: (usize, usize),
}

impl<M: Clone> Conversation<M> {
    /// A conversation that begins with these messages (a system message, or none), as it does after every reset.
    #[must_use]
    pub fn new(opening: Vec<M>) -> Self {
        Self {
            messages: opening.clone(),
            opening,
            text: String::new(),
            tokens: Vec::new(),
            before: (0, 0),
        }
    }

    /// All messages.
    #[must_use]
    pub fn messages(&self) -> &[M] {
        &self.messages
    }

    /// Forgets everything but the opening.
    pub fn reset(&mut self) {
        *self = Self::new(std::mem::take(&mut self.opening));
    }

    /// Takes a message and gives the prompt that asks for its answer. `render` writes messages as the model was
    /// trained on them, up to where the answer begins; `encode` cuts text into tokens, with the model's BOS where it
    /// is told that this is the beginning.
    ///
    /// # Errors
    ///
    /// Whatever `render` returns; the message is not taken then.
    pub fn ask<R: Rendered, E>(
        &mut self,
        message: M,
        render: impl FnOnce(&[M]) -> Result<R, E>,
        encode: impl FnOnce(&R, bool) -> Vec<u32>,
    ) -> Result<Vec<u32>, E> {
        self.messages.push(message);
        let rendered = match render(&self.messages) {
            Ok(rendered) => rendered,
            Err(error) => {
                self.messages.pop();
                return Err(error);
            }
        };
        if !self.text.is_empty() && rendered.text().starts_with(&self.text) {
            self.before = (self.text.len(), self.tokens.len());
            self.tokens
                .extend(encode(&rendered.after(self.text.len()), false));
        } else {
            self.before = (0, 0);
            self.tokens = encode(&rendered, true);
        }
        rendered.text().clone_into(&mut self.text);
        Ok(self.tokens.clone())
    }

    /// Takes the answer to the last prompt: the message, its text as the template will write it, and the tokens of
    /// that text. Without tokens the text is cut anew for the next prompt: so after a stop string, which is in the
    /// tokens of the reply but not in its text.
    pub fn answer(&mut self, message: M, text: &str, tokens: &[u32]) {
        self.messages.push(message);
        if !tokens.is_empty() {
            self.text.push_str(text);
            self.tokens.extend_from_slice(tokens);
        }
    }

    /// Takes the last question back: it got no answer. (To be called between a question and its answer only.)
    pub fn withdraw(&mut self) {
        if self.messages.len() > self.opening.len() {
            self.messages.pop();
        }
        self.text.truncate(self.before.0);
        self.tokens.truncate(self.before.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `<u>question</u><a>answer</a>…<a>`, as templates do it.
    fn render(messages: &[(bool, String)]) -> Result<String, &'static str> {
        if messages.iter().any(|m| m.1 == "forbidden") {
            return Err("this template refuses it");
        }
        let parts = messages.iter().map(|(user, text)| match user {
            true => format!("<u>{text}</u>"),
            false => format!("<a>{text}</a>"),
        });
        Ok(parts.chain(["<a>".to_owned()]).collect())
    }

    /// Pairs of letters where two stand together, as a tokenizer that merges; 1 is BOS.
    fn encode_text(text: &str, beginning: bool) -> Vec<u32> {
        let pairs = text.as_bytes().chunks(2);
        let tokens = pairs.map(|pair| {
            pair.iter()
                .fold(0, |sum, &byte| sum * 256 + u32::from(byte))
        });
        beginning.then_some(1).into_iter().chain(tokens).collect()
    }

    #[expect(clippy::ptr_arg)] // What `Conversation::ask` hands over for these messages is a `String`.
    fn encode(text: &String, beginning: bool) -> Vec<u32> {
        encode_text(text, beginning)
    }

    fn user(text: &str) -> (bool, String) {
        (true, text.into())
    }

    #[test]
    fn the_next_prompt_begins_with_the_last_one_and_the_tokens_of_its_reply() {
        let mut talk = Conversation::new(vec![user("be kind")]);
        let first = talk.ask(user("hello"), render, encode).unwrap();
        assert_eq!(first, encode_text("<u>be kind</u><u>hello</u><a>", true));
        // The model wrote "hi!" letter by letter; encode() would have made pairs of it.
        let chosen = [104, 105, 33];
        talk.answer((false, "hi!".into()), "hi!", &chosen);
        let second = talk.ask(user("bye"), render, encode).unwrap();
        let expected = [
            &first[..],
            &chosen,
            &encode_text("</a><u>bye</u><a>", false),
        ]
        .concat();
        assert_eq!(second, expected);
    }

    #[test]
    fn a_reply_that_the_template_writes_otherwise_is_cut_anew() {
        let mut talk = Conversation::new(vec![]);
        talk.ask(user("a"), render, encode).unwrap();
        // The template trims what the model wrote.
        talk.answer((false, "b".into()), " b", &[32, 98]);
        let found = talk.ask(user("c"), render, encode).unwrap();
        assert_eq!(found, encode_text("<u>a</u><a>b</a><u>c</u><a>", true));
    }

    #[test]
    fn a_reply_without_tokens_is_cut_anew() {
        let mut talk = Conversation::new(vec![]);
        let first = talk.ask(user("a"), render, encode).unwrap();
        talk.answer((false, "b".into()), "b", &[]);
        let found = talk.ask(user("c"), render, encode).unwrap();
        assert_eq!(
            found,
            [first, encode_text("b</a><u>c</u><a>", false)].concat()
        );
    }

    #[test]
    fn a_question_without_an_answer_leaves_no_trace() {
        let mut talk = Conversation::new(vec![]);
        talk.ask(user("a"), render, encode).unwrap();
        talk.answer((false, "bcd".into()), "bcd", &[98, 99, 100]);
        let expected = talk.clone().ask(user("e"), render, encode).unwrap();
        talk.ask(user("interrupted"), render, encode).unwrap();
        talk.withdraw();
        assert_eq!(talk.ask(user("e"), render, encode).unwrap(), expected);
    }

    #[test]
    fn reset_and_withdraw_forget_and_keep_the_opening() {
        let mut talk = Conversation::new(vec![user("sys")]);
        let first = talk.ask(user("x"), render, encode).unwrap();
        talk.answer((false, "y".into()), "y", &[121]);
        talk.reset();
        assert_eq!(talk.messages(), [user("sys")]);
        assert_eq!(talk.ask(user("x"), render, encode).unwrap(), first);
        talk.withdraw();
        assert_eq!(talk.messages(), [user("sys")]);
        assert_eq!(
            talk.ask(user("forbidden"), render, encode),
            Err("this template refuses it")
        );
        assert_eq!(talk.messages(), [user("sys")]);
        assert_eq!(talk.ask(user("x"), render, encode).unwrap(), first);
    }
}
