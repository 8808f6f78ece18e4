//! The compact form of a `tokenizer.json`, written beside it: the tables of [`Bpe`] as they are, for a fast start.
//!
//! ```text
//! "fwtk" version checksum            4 + 4 + 4 bytes; CRC-32 of all that follows
//! json_bytes json_checksum           8 + 4: the tokenizer.json that this stands for
//! rules unknown                      4 + 4
//! count                              4, then for each of nine tables: its length in bytes (4) and its bytes
//! ```
//! Little-endian. The tables: the rest of the JSON (everything but vocabulary and merges), then those of [`Bpe`].
//!
//! Both checksums are against accidents (a torn write, a file that was edited or replaced), not against an attacker:
//! who can write this file can write `tokenizer.json` as well. That is why CRC-32 is enough; it runs at memory speed
//! where SHA-256 without its own instructions takes longer than all the rest of loading.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::bpe::{Bpe, NONE, Rules};

/// The name of the file beside `tokenizer.json`.
pub const COMPACT_FILE: &str = "tokenizer.firstword";

const MAGIC: &[u8; 4] = b"fwtk";
const VERSION: u32 = 1;
const HEAD: usize = 12;

/// What a `tokenizer.json` is recognised by: its length in bytes and the CRC-32 of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) bytes: u64,
    pub(super) checksum: u32,
}

impl Identity {
    /// Of bytes in memory.
    pub(super) fn of(json: &[u8]) -> Self {
        Self {
            bytes: json.len() as u64,
            checksum: crc32fast::hash(json),
        }
    }

    /// Of a file, read in pieces.
    pub(super) fn of_file(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut hasher = crc32fast::Hasher::new();
        let mut piece = vec![0; 256 * 1024];
        let mut bytes = 0;
        loop {
            match file.read(&mut piece)? {
                0 => break,
                read => {
                    hasher.update(&piece[..read]);
                    bytes += read as u64;
                }
            }
        }
        Ok(Self {
            bytes,
            checksum: hasher.finalize(),
        })
    }
}

/// The compact form of a `tokenizer.json`; `rest` is its JSON without vocabulary and merges.
pub(super) fn to_bytes(json: Identity, rest: &[u8], tables: &Bpe) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&json.bytes.to_le_bytes());
    out.extend_from_slice(&json.checksum.to_le_bytes());
    let rules = tables.rules;
    let flags = u32::from(rules.fuse_unknown)
        | u32::from(rules.byte_fallback) << 1
        | u32::from(rules.ignore_merges) << 2;
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&rules.unknown.unwrap_or(NONE).to_le_bytes());
    out.extend_from_slice(&(tables.len() as u32).to_le_bytes());
    for bytes in [rest, &tables.text] {
        out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(bytes);
    }
    let lists = [
        &tables.ends,
        &tables.by_text,
        &tables.chars,
        &tables.char_ids,
        &tables.rows,
        &tables.right,
        &tables.rank,
        &tables.merged,
    ];
    for list in lists {
        out.extend_from_slice(&(4 * list.len() as u32).to_le_bytes());
        out.extend(list.iter().flat_map(|value| value.to_le_bytes()));
    }
    let checksum = crc32fast::hash(&out[HEAD..]);
    out[8..HEAD].copy_from_slice(&checksum.to_le_bytes());
    out
}

/// Reads the compact form: the identity of its JSON, the rest of the JSON, the tables.
///
/// # Errors
/// One line that says what is wrong with it; the caller then takes `tokenizer.json`.
pub(super) fn from_bytes(bytes: &[u8]) -> Result<(Identity, &[u8], Bpe), String> {
    let mut from = Reader(bytes);
    if from.take(4)? != MAGIC {
        return Err("expected it to begin with \"fwtk\"".to_owned());
    }
    let version = from.word()?;
    if version != VERSION {
        return Err(format!("expected version {VERSION}, found {version}"));
    }
    if from.word()? != crc32fast::hash(from.0) {
        return Err("its checksum does not fit: it is torn or was changed".to_owned());
    }
    let low = u64::from(from.word()?);
    let identity = Identity {
        bytes: low | u64::from(from.word()?) << 32,
        checksum: from.word()?,
    };
    let flags = from.word()?;
    let unknown = from.word()?;
    let count = from.word()? as usize;
    let rest = from.part()?;
    let text = from.part()?.to_vec();
    let mut tables = Bpe {
        rules: Rules {
            unknown: (unknown != NONE).then_some(unknown),
            fuse_unknown: flags & 1 != 0,
            byte_fallback: flags & 2 != 0,
            ignore_merges: flags & 4 != 0,
        },
        text,
        ends: from.list()?,
        by_text: from.list()?,
        chars: from.list()?,
        char_ids: from.list()?,
        rows: from.list()?,
        right: from.list()?,
        rank: from.list()?,
        merged: from.list()?,
        bytes: Vec::new(),
    };
    if !from.0.is_empty() {
        return Err(format!("{} bytes too many", from.0.len()));
    }
    check(&tables, count)?;
    tables.find_bytes();
    Ok((identity, rest, tables))
}

/// Whether every index and every range of the tables is one: afterwards no look-up can go wrong.
fn check(tables: &Bpe, count: usize) -> Result<(), String> {
    let merges = tables.right.len();
    let ordered = |list: &[u32], end: usize| {
        list.is_sorted() && list.last().is_none_or(|&last| last as usize == end)
    };
    let ids = |list: &[u32]| list.iter().all(|&id| (id as usize) < count);
    let sound = tables.ends.len() == count
        && ordered(&tables.ends, tables.text.len())
        && tables.rows.len() == count + 1
        && ordered(&tables.rows, merges)
        && tables.rank.len() == merges
        && tables.merged.len() == merges
        && tables.char_ids.len() == tables.chars.len()
        && ids(&tables.right)
        && ids(&tables.merged)
        && ids(&tables.by_text)
        && ids(&tables.char_ids)
        && tables.rules.unknown.is_none_or(|id| (id as usize) < count);
    if !sound {
        return Err("its tables contradict one another".to_owned());
    }
    Ok(())
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], String> {
        let (head, tail) = self
            .0
            .split_at_checked(bytes)
            .ok_or_else(|| format!("expected {bytes} more bytes, found {}", self.0.len()))?;
        self.0 = tail;
        Ok(head)
    }

    fn word(&mut self) -> Result<u32, String> {
        let mut word = [0; 4];
        word.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(word))
    }

    fn part(&mut self) -> Result<&'a [u8], String> {
        let bytes = self.word()? as usize;
        self.take(bytes)
    }

    fn list(&mut self) -> Result<Vec<u32>, String> {
        let (words, rest) = self.part()?.as_chunks::<4>();
        if !rest.is_empty() {
            return Err("a table's length is no multiple of 4".to_owned());
        }
        Ok(words.iter().map(|&word| u32::from_le_bytes(word)).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tables() -> Bpe {
        let vocabulary = [
            ("a", 0),
            ("b", 1),
            ("ab", 2),
            ("é", 5),
            ("<0x0A>", 4),
            ("?", 6),
        ];
        let rules = Rules {
            unknown: None,
            fuse_unknown: true,
            byte_fallback: true,
            ignore_merges: false,
        };
        Bpe::build(&vocabulary, &[("a", "b")], Some("?"), rules).expect("consistent")
    }

    const OF: Identity = Identity {
        bytes: 1 << 40,
        checksum: 7,
    };

    #[test]
    fn what_is_written_is_read_back() {
        let bytes = to_bytes(OF, b"{}", &tables());
        let (identity, rest, read) = from_bytes(&bytes).expect("whole");
        assert_eq!((identity, rest, read), (OF, b"{}".as_slice(), tables()));
    }

    proptest! {
        /// A damaged file is refused; one whose checksum was made to fit may be read, and then holds for any text.
        #[test]
        fn damage_is_refused_or_harmless(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            length in any::<prop::sample::Index>(),
            cut in any::<bool>(),
            mend in any::<bool>(),
            text in "[ab\u{e9}\n?x]{0,12}",
        ) {
            let whole = to_bytes(OF, b"{}", &tables());
            let mut bytes = whole.clone();
            for (place, byte) in changes {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            if cut {
                bytes.truncate(length.index(bytes.len()));
            }
            if mend && bytes.len() >= HEAD {
                let checksum = crc32fast::hash(&bytes[HEAD..]);
                bytes[8..HEAD].copy_from_slice(&checksum.to_le_bytes());
            }
            match from_bytes(&bytes) {
                Ok((_, _, tables)) => {
                    prop_assert!(mend || bytes == whole);
                    let mut ids = Vec::new();
                    tables.tokenize(&text, &mut ids);
                    prop_assert!(ids.iter().all(|&id| (id as usize) < tables.len()));
                }
                Err(reason) => prop_assert!(!reason.contains('\n')),
            }
        }
    }
}
