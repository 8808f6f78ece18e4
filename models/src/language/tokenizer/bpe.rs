//! Byte pair encoding on flat tables: what the `tokenizers` crate's `BPE` computes, without its hash maps.
//!
//! The crate keeps every token as a string of its own, twice, and every merge in a hash map: 1.2 s and 150 MB for
//! Gemma's 262 144 tokens. Here all tokens lie in one buffer and the merges of a left part lie side by side, sorted by
//! their right part, so the tables can be read from a file as they are (see [`compact`](super::compact)). The same
//! merges in the same order, ties included, give the same tokens; a property test holds the two against each other.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// "No token": ids are below this.
pub(super) const NONE: u32 = u32::MAX;

/// How text outside the vocabulary is treated, as in the `model` of a `tokenizer.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    /// The token for what has no token; `None`: such characters vanish.
    pub(super) unknown: Option<u32>,
    /// Consecutive unknown characters become one unknown token.
    pub(super) fuse_unknown: bool,
    /// Characters without a token become their bytes' tokens, `<0x00>`…`<0xFF>`.
    pub(super) byte_fallback: bool,
    /// A whole word that is a token is taken as it is, whatever its merges say.
    pub(super) ignore_merges: bool,
}

/// The tables of a vocabulary. Every index in them is below the number of tokens, every range in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bpe {
    pub(super) rules: Rules,
    /// All tokens' texts, one after the other; an id that is not used has an empty text.
    pub(super) text: Vec<u8>,
    /// Where each token's text ends.
    pub(super) ends: Vec<u32>,
    /// Ids, in the order of their texts; unused ids are absent.
    pub(super) by_text: Vec<u32>,
    /// Tokens of one character: the characters in order, and the ids beside them.
    pub(super) chars: Vec<u32>,
    pub(super) char_ids: Vec<u32>,
    /// Merges of left part `l`: `rows[l]..rows[l + 1]` of the next three, in the order of `right`.
    pub(super) rows: Vec<u32>,
    pub(super) right: Vec<u32>,
    pub(super) rank: Vec<u32>,
    pub(super) merged: Vec<u32>,
    /// The token of each byte, or [`NONE`]. Computed, not stored.
    pub(super) bytes: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Symbol {
    id: u32,
    /// Bytes of text; 0 once merged into the one before.
    len: u32,
    prev: u32,
    next: u32,
}

impl Bpe {
    /// Tables from a vocabulary `(text, id)` and merges `(left, right)` in order of rank, as in a `tokenizer.json`.
    ///
    /// # Errors
    /// One line: an id without bound, a text twice, a merge of or into something that is no token.
    pub(super) fn build(
        vocabulary: &[(&str, u32)],
        merges: &[(&str, &str)],
        unknown: Option<&str>,
        rules: Rules,
    ) -> Result<Self, String> {
        let highest = vocabulary.iter().map(|&(_, id)| id as usize).max();
        let size = highest.map_or(0, |id| id + 1);
        if size > 4 * vocabulary.len() + 4096 {
            return Err(format!(
                "expected ids without large gaps, found id {} among {} tokens",
                size - 1,
                vocabulary.len()
            ));
        }
        let mut texts = vec![""; size];
        let mut ids: HashMap<&str, u32> = HashMap::with_capacity(vocabulary.len());
        for &(text, id) in vocabulary {
            if !texts[id as usize].is_empty() || ids.insert(text, id).is_some() {
                return Err(format!(
                    "expected every token once, found {text:?} or its id {id} twice"
                ));
            }
            texts[id as usize] = text;
        }
        let mut triples = Vec::with_capacity(merges.len());
        let mut joined = String::new();
        for (rank, &(left, right)) in merges.iter().enumerate() {
            joined.clear();
            joined.push_str(left);
            joined.push_str(right);
            let find = |part: &str| {
                ids.get(part)
                    .copied()
                    .ok_or_else(|| format!("merge {rank}: {part:?} is no token"))
            };
            triples.push((find(left)?, find(right)?, rank as u32, find(&joined)?));
        }
        let unknown = match unknown {
            Some(text) => Some(
                *ids.get(text)
                    .ok_or_else(|| format!("the unknown token {text:?} is no token"))?,
            ),
            None => None,
        };
        Self::lay_out(&texts, triples, Rules { unknown, ..rules })
    }

    fn lay_out(
        texts: &[&str],
        mut merges: Vec<(u32, u32, u32, u32)>,
        rules: Rules,
    ) -> Result<Self, String> {
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        if u32::try_from(bytes).is_err() || u32::try_from(merges.len()).is_err() {
            return Err("expected a vocabulary below 4 GiB".to_owned());
        }
        let mut text = Vec::with_capacity(bytes);
        let mut ends = Vec::with_capacity(texts.len());
        for token in texts {
            text.extend_from_slice(token.as_bytes());
            ends.push(text.len() as u32);
        }
        let mut by_text: Vec<u32> = (0..texts.len() as u32)
            .filter(|&id| !texts[id as usize].is_empty())
            .collect();
        by_text.sort_unstable_by_key(|&id| texts[id as usize]);
        let (chars, char_ids) = by_text
            .iter()
            .filter_map(|&id| {
                let mut all = texts[id as usize].chars();
                let first = all.next()?;
                all.next().is_none().then_some((u32::from(first), id))
            })
            .unzip();
        // A pair named twice counts with its later rank, as in the crate's map.
        merges.sort_unstable_by_key(|&(left, right, rank, _)| (left, right, Reverse(rank)));
        merges.dedup_by_key(|&mut (left, right, _, _)| (left, right));
        let mut rows = vec![0; texts.len() + 1];
        for &(left, ..) in &merges {
            rows[left as usize + 1] += 1;
        }
        for at in 1..rows.len() {
            rows[at] += rows[at - 1];
        }
        let mut tables = Self {
            rules,
            text,
            ends,
            by_text,
            chars,
            char_ids,
            rows,
            right: merges.iter().map(|merge| merge.1).collect(),
            rank: merges.iter().map(|merge| merge.2).collect(),
            merged: merges.iter().map(|merge| merge.3).collect(),
            bytes: Vec::new(),
        };
        tables.find_bytes();
        Ok(tables)
    }

    /// Looks up the 256 byte tokens.
    pub(super) fn find_bytes(&mut self) {
        self.bytes = (0..256)
            .map(|byte| self.id(&format!("<0x{byte:02X}>")).unwrap_or(NONE))
            .collect();
    }

    /// One more than the highest id.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The text of a token, empty if there is none.
    pub(super) fn token(&self, id: u32) -> &str {
        let at = id as usize;
        let Some(&end) = self.ends.get(at) else {
            return "";
        };
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        let bytes = self.text.get(start as usize..end as usize);
        bytes
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }

    /// The token with exactly this text.
    pub(super) fn id(&self, text: &str) -> Option<u32> {
        let at = self
            .by_text
            .binary_search_by(|&id| self.token(id).cmp(text));
        at.ok().map(|at| self.by_text[at])
    }

    fn char_id(&self, character: char) -> Option<u32> {
        let at = self.chars.binary_search(&u32::from(character)).ok()?;
        self.char_ids.get(at).copied()
    }

    /// The rank of the merge of two tokens, and what it gives.
    fn merge(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        let start = *self.rows.get(left as usize)? as usize;
        let end = *self.rows.get(left as usize + 1)? as usize;
        let at = start + self.right.get(start..end)?.binary_search(&right).ok()?;
        Some((*self.rank.get(at)?, *self.merged.get(at)?))
    }

    /// The tokens of one word (a piece that the pre-tokeniser has cut out), appended to `out`.
    pub(super) fn tokenize(&self, word: &str, out: &mut Vec<u32>) {
        if self.rules.ignore_merges
            && let Some(id) = self.id(word)
        {
            out.push(id);
            return;
        }
        let mut symbols = self.symbols(word);
        self.merge_all(&mut symbols);
        out.extend(
            symbols
                .iter()
                .filter(|symbol| symbol.len != 0)
                .map(|symbol| symbol.id),
        );
    }

    /// The characters of a word as tokens, linked.
    fn symbols(&self, word: &str) -> Vec<Symbol> {
        let mut symbols: Vec<Symbol> = Vec::with_capacity(word.len());
        let mut push = |id: u32, len: usize| {
            let at = symbols.len() as u32;
            symbols.push(Symbol {
                id,
                len: len as u32,
                prev: at.wrapping_sub(1),
                next: at + 1,
            });
        };
        let mut pending: Option<(u32, usize)> = None;
        for character in word.chars() {
            let len = character.len_utf8();
            if let Some(id) = self.char_id(character) {
                if let Some((unknown, len)) = pending.take() {
                    push(unknown, len);
                }
                push(id, len);
                continue;
            }
            if self.rules.byte_fallback {
                let mut buffer = [0; 4];
                let bytes = character.encode_utf8(&mut buffer).as_bytes();
                if bytes
                    .iter()
                    .all(|&byte| self.bytes[usize::from(byte)] != NONE)
                {
                    // The crate leaves a pending unknown token pending here: it then comes after the bytes.
                    for &byte in bytes {
                        push(self.bytes[usize::from(byte)], 1);
                    }
                    continue;
                }
            }
            if let Some(unknown) = self.rules.unknown {
                pending = match pending {
                    Some((id, before)) if self.rules.fuse_unknown => Some((id, before + len)),
                    Some((id, before)) => {
                        push(id, before);
                        Some((unknown, len))
                    }
                    None => Some((unknown, len)),
                };
            }
        }
        if let Some((unknown, len)) = pending {
            push(unknown, len);
        }
        symbols
    }

    /// Merges neighbours, the lowest rank first and of equal ranks the leftmost, until none is left.
    fn merge_all(&self, symbols: &mut [Symbol]) {
        let mut queue: BinaryHeap<Reverse<(u32, u32, u32)>> =
            BinaryHeap::with_capacity(symbols.len());
        queue.extend(symbols.windows(2).enumerate().filter_map(|(at, pair)| {
            let (rank, merged) = self.merge(pair[0].id, pair[1].id)?;
            Some(Reverse((rank, at as u32, merged)))
        }));
        while let Some(Reverse((_, at, merged))) = queue.pop() {
            let here = symbols[at as usize];
            if here.len == 0 {
                continue;
            }
            let Some(&right) = symbols.get(here.next as usize) else {
                continue;
            };
            // An entry made for neighbours that have since merged otherwise.
            if self
                .merge(here.id, right.id)
                .is_none_or(|(_, now)| now != merged)
            {
                continue;
            }
            symbols[here.next as usize].len = 0;
            let here = Symbol {
                id: merged,
                len: here.len + right.len,
                prev: here.prev,
                next: right.next,
            };
            symbols[at as usize] = here;
            if let Some(after) = symbols.get_mut(right.next as usize) {
                after.prev = at;
                if let Some((rank, merged)) = self.merge(here.id, after.id) {
                    queue.push(Reverse((rank, at, merged)));
                }
            }
            if let Some(before) = symbols.get(here.prev as usize)
                && let Some((rank, merged)) = self.merge(before.id, here.id)
            {
                queue.push(Reverse((rank, here.prev, merged)));
            }
        }
    }
}
