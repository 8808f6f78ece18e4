//! Whatever is in a file that calls itself GGUF, opening it ends: with a model that can be read, or with one line that
//! names the file and what is wrong. No panic, and no memory beyond what the file's size explains.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use firstword_models::gguf::{Gguf, GgufError};
use proptest::prelude::*;

use crate::counting;
use crate::fixture::{self, Raw};

/// A folder with one file that is written over again and again: some file systems wait for the disk when a file is
/// emptied and written anew.
struct Bench {
    _folder: tempfile::TempDir,
    path: PathBuf,
    file: File,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        Self {
            file: File::create(&path).unwrap(),
            _folder: folder,
            path,
        }
    }

    fn open(&self, bytes: &[u8]) -> Result<Gguf, GgufError> {
        self.file.write_all_at(bytes, 0).unwrap();
        self.file.set_len(bytes.len() as u64).unwrap();
        // The buffer of the head's reader is 64 KiB. What is kept of an entry is at most some ten times what it takes
        // in the file.
        let allowed = (1 << 16) + 16 * bytes.len();
        let (opened, largest) = counting::largest_during(|| Gguf::open(&self.path));
        assert!(
            largest <= allowed,
            "{largest} bytes at once for a file of {}",
            bytes.len()
        );
        opened
    }

    /// Opens it and reads it all; a refusal must be one line with the file's name. Whether it opened.
    fn try_out(&self, bytes: &[u8]) -> bool {
        let model = match self.open(bytes) {
            Ok(model) => model,
            Err(error) => {
                let error = error.to_string();
                assert!(!error.contains('\n') && error.contains("gguf"), "{error:?}");
                assert!(error.len() < 1000, "{error}");
                return false;
            }
        };
        for tensor in model.iter() {
            let mut values = vec![0.0; tensor.rows() * tensor.columns()];
            tensor.dequantise(0..tensor.rows(), &mut values).unwrap();
        }
        true
    }

    fn refusal(&self, bytes: &[u8]) -> String {
        match self.open(bytes) {
            Ok(_) => String::from("it was opened"),
            Err(error) => error.to_string(),
        }
    }
}

/// One tensor `w` with a shape, a type, an offset, and so many bytes of data.
fn with_tensor(shape: &[u64], kind: u32, offset: u64, data: usize) -> Vec<u8> {
    Raw::new(3, 1, 0)
        .tensor("w", shape, kind, offset)
        .data(data)
        .0
}

/// One key `k` with these bytes after it, and 64 more.
fn with_key(kind: u32, value: &[u8]) -> Vec<u8> {
    Raw::new(3, 0, 1)
        .string(b"k")
        .u32(kind)
        .bytes(value)
        .bytes(&[0; 64])
        .0
}

#[test]
fn each_damage_is_named_with_place_expected_and_found() {
    let array = |kind: u32, length: u64| Raw::default().u32(kind).u64(length).0;
    let deep = (0..6).fold(Raw::default(), |raw, _| raw.u32(9).u64(1)).0;
    let two = |first: (u32, u64), second: (u32, u64)| {
        let head = Raw::new(3, 2, 0).tensor("a", &[8], first.0, first.1);
        head.tensor("b", &[8], second.0, second.1).data(64).0
    };
    let twice = Raw::new(3, 2, 0)
        .tensor("a", &[8], 0, 0)
        .tensor("a", &[8], 0, 32);
    let key_twice = Raw::new(3, 0, 2)
        .string(b"k")
        .u32(0)
        .bytes(&[1])
        .string(b"k")
        .u32(0)
        .bytes(&[1]);
    let aligned = |kind: u32, value: &[u8]| {
        let head = Raw::new(3, 0, 1).string(b"general.alignment");
        head.u32(kind).bytes(value).bytes(&[0; 64]).0
    };
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "an empty file: fetch it again"),
        (b"GG".to_vec(), "found the bytes [47, 47]"),
        (
            b"version https://git-lfs.github.com/spec/v1\n".to_vec(),
            "a Git LFS pointer",
        ),
        (b"<!DOCTYPE html>".to_vec(), "a web page"),
        (b"tjgg....".to_vec(), "from before GGUF"),
        (b"PK\x03\x04".to_vec(), "a zip archive"),
        (
            b"GGUF".to_vec(),
            "at byte 4, version: expected 4 bytes, found 0 until the end",
        ),
        (
            Raw::new(1, 0, 0).0,
            "GGUF version 1, expected version 2 or 3: fetch a newer conversion",
        ),
        (
            Raw::new(4, 0, 0).0,
            "GGUF version 4, expected version 2 or 3: a newer firstword",
        ),
        (
            Raw::new(3_u32.swap_bytes(), 0, 0).0,
            "big-endian GGUF file, expected little-endian",
        ),
        (
            Raw::new(3, 0, 0).0[..20].to_vec(),
            "at byte 16, number of metadata keys: expected 8 bytes, found 4",
        ),
        (
            Raw::new(3, u64::MAX, 0).data(64).0,
            "at byte 8, number of tensors: expected at most 2 in a file",
        ),
        (
            Raw::new(3, 0, u64::MAX).data(64).0,
            "at byte 16, number of metadata keys: expected at most 5",
        ),
        (
            Raw::new(3, 0, 1).u64(u64::MAX).bytes(&[0; 64]).0,
            "metadata key: expected a string that ends within the file's 96 bytes, found one of 18446744073709551615",
        ),
        (
            Raw::new(3, 0, 1).string(b"").u32(0).bytes(&[0; 8]).0,
            "expected a name, found an empty string",
        ),
        (
            Raw::new(3, 0, 1).string(b"\xff\n").u32(0).bytes(&[0; 8]).0,
            "expected a name in UTF-8, found `\u{fffd}\\n`",
        ),
        (
            key_twice.0,
            "metadata key: expected each key once, found `k` a second time",
        ),
        (
            with_key(13, &[]),
            "at byte 33, value of `k`: expected a value type from 0 to 12, found 13",
        ),
        (
            with_key(7, &[2]),
            "at byte 37, value of `k`: expected a bool, 0 or 1, found 2",
        ),
        (
            with_key(8, &1000_u64.to_le_bytes()),
            "at byte 37, value of `k`: expected a string that ends within",
        ),
        (
            with_key(9, &array(13, 1)),
            "at byte 37, value of `k`: expected a value type from 0 to 12, found 13",
        ),
        (
            with_key(9, &array(0, 65)),
            "at byte 41, value of `k`: expected an array of at most 64 values",
        ),
        (
            with_key(9, &array(10, u64::MAX)),
            "expected an array of at most 8 values",
        ),
        (
            with_key(9, &array(8, 9)),
            "expected an array of at most 8 values",
        ),
        (
            with_key(9, &[&array(7, 2)[..], &[1, 2]].concat()),
            "at byte 50, value of `k`: expected a bool, 0 or 1, found 2",
        ),
        (
            with_key(9, &deep),
            "expected arrays within arrays at most 4 deep, found deeper ones",
        ),
        (
            aligned(4, &0_u32.to_le_bytes()),
            "expected a u32 that is a power of two, found u32 0",
        ),
        (
            aligned(4, &48_u32.to_le_bytes()),
            "expected a u32 that is a power of two, found u32 48",
        ),
        (
            aligned(10, &32_u64.to_le_bytes()),
            "expected a u32 that is a power of two, found u64 32",
        ),
        (
            with_tensor(&[], 0, 0, 64),
            "at byte 33, shape of tensor `w`: expected 1 to 4 dimensions, found 0",
        ),
        (
            with_tensor(&[1; 5], 0, 0, 64),
            "expected 1 to 4 dimensions, found 5",
        ),
        (
            with_tensor(&[8, 0], 0, 0, 64),
            "expected no dimension of 0, found [8, 0]",
        ),
        (
            with_tensor(&[u64::MAX, 3], 0, 0, 64),
            "expected a size that can be counted",
        ),
        (
            with_tensor(&[1 << 62, 1], 0, 0, 64),
            "expected a size that can be counted",
        ),
        (
            with_tensor(&[8], 0, 16, 64),
            "offset of tensor `w`: expected a multiple of the alignment 32, found 16",
        ),
        (
            with_tensor(&[8], 0, u64::MAX - 31, 64),
            "expected a file of at least over 2^64 bytes",
        ),
        (
            with_tensor(&[8], 0, 64, 64),
            "expected a file of at least 160 bytes, found 128",
        ),
        (
            with_tensor(&[8], 0, 0, 31),
            "expected a file of at least 96 bytes, found 95",
        ),
        (
            with_tensor(&[48], 8, 0, 64),
            "expected rows of a multiple of 32 values for Q8_0, found 48",
        ),
        (
            with_tensor(&[128, 2], 12, 0, 512),
            "expected rows of a multiple of 256 values for Q4_K, found 128",
        ),
        (with_tensor(&[32], 20, 0, 64), "tensor `w` of "),
        (
            with_tensor(&[32], 20, 0, 64),
            "(at byte 24) has type IQ4_NL, expected one of F32, F16, BF16, Q4_0,",
        ),
        (with_tensor(&[32], 39, 0, 64), "has type MXFP4"),
        (with_tensor(&[32], 34, 0, 64), "has type TQ1_0"),
        (with_tensor(&[32], 24, 0, 64), "has type I8"),
        (with_tensor(&[32], 4, 0, 64), "has type Q4_2"),
        (
            with_tensor(&[32], 999, 0, 64),
            "has type number 999, which ggml doesn't list",
        ),
        (
            twice.data(64).0,
            "tensor name: expected each tensor once, found `a` a second time",
        ),
        (
            two((0, 0), (0, 0)),
            "data of tensor `b`: expected it to begin after `a`, at byte 128 or later, found byte 96",
        ),
    ];
    let bench = Bench::new();
    for (bytes, expected) in cases {
        let refusal = bench.refusal(&bytes);
        assert!(
            refusal.contains(expected),
            "expected {expected}\n   found {refusal}"
        );
        assert!(
            refusal.contains("model.gguf") && !refusal.contains('\n'),
            "{refusal}"
        );
    }
    assert!(
        bench.try_out(&two((0, 32), (0, 0))),
        "in any order, if they don't overlap"
    );
    assert!(
        bench.try_out(&with_key(9, &array(9, 2))),
        "empty arrays in an array"
    );
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = Gguf::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("not a plain file"), "{error}");
    let error = Gguf::open(Path::new("/nonexistent/model.gguf"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("/nonexistent/model.gguf can't be read"),
        "{error}"
    );
}

#[test]
fn a_huge_file_of_nothing_does_not_take_its_size_in_memory() {
    // 1 TB that takes no space on the disk; one string that fills it.
    let bench = Bench::new();
    let head = Raw::new(3, 0, 1).string(b"k").u32(8).u64(1 << 39).0;
    bench.file.write_all_at(&head, 0).unwrap();
    if bench.file.set_len(1 << 40).is_err() {
        println!("skipped: no sparse file of 1 TB here");
        return;
    }
    let (opened, largest) = counting::largest_during(|| Gguf::open(&bench.path));
    let error = opened.unwrap_err().to_string();
    assert!(
        error.contains("expected a file head of at most 268435456 bytes"),
        "{error}"
    );
    assert!(largest <= 1 << 17, "{largest}");
}

/// A file with keys of every type and a few tensors, and where its head ends.
fn valid() -> (Vec<u8>, usize) {
    static VALID: OnceLock<(Vec<u8>, usize)> = OnceLock::new();
    VALID.get_or_init(make_valid).clone()
}

fn make_valid() -> (Vec<u8>, usize) {
    let file = fixture::file();
    let model = Bench::new().open(&file).unwrap();
    let head = model
        .tensors()
        .iter()
        .map(|tensor| tensor.offset)
        .min()
        .unwrap() as usize;
    (file, head)
}

#[test]
fn a_file_cut_at_any_byte_is_refused() {
    let (file, head) = valid();
    let bench = Bench::new();
    for length in (0..head)
        .chain((head..file.len()).step_by(97))
        .chain([file.len() - 1])
    {
        assert!(
            !bench.try_out(&file[..length]),
            "opened with {length} of {} bytes",
            file.len()
        );
    }
    assert!(bench.try_out(&file));
}

#[test]
fn any_byte_of_the_head_may_be_wrong() {
    let (file, head) = valid();
    let bench = Bench::new();
    let (mut opened, mut refused) = (0, 0);
    for at in 0..head {
        for wrong in [0x00, 0x80, 0xff, file[at] ^ 0x01] {
            let mut file = file.clone();
            file[at] = wrong;
            if bench.try_out(&file) {
                opened += 1
            } else {
                refused += 1
            }
        }
    }
    // Names and numbers may be anything; lengths, counts, shapes and types may not.
    assert!(
        opened > 1000 && refused > 1000,
        "{opened} opened, {refused} refused"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn many_bytes_may_be_wrong(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
        cut_it in prop::bool::weighted(0.2),
    ) {
        let (mut file, head) = valid();
        for (at, wrong) in changes {
            let at = at.index(head);
            file[at] = wrong;
        }
        if cut_it {
            file.truncate(cut.index(file.len()));
        }
        Bench::new().try_out(&file);
    }

    #[test]
    fn numbers_of_the_head_may_be_absurd(
        at in any::<prop::sample::Index>(),
        wrong in prop::sample::select(vec![
            0, 1, u64::from(u32::MAX), 1 << 31, 1 << 32, 1 << 62, i64::MAX as u64, i64::MIN as u64,
            u64::MAX - 31, u64::MAX,
        ]),
    ) {
        let (mut file, head) = valid();
        let at = at.index(head - 8);
        file[at..at + 8].copy_from_slice(&wrong.to_le_bytes());
        Bench::new().try_out(&file);
    }

    #[test]
    fn anything_may_follow_the_first_four_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        Bench::new().try_out(&Raw(b"GGUF".to_vec()).bytes(&bytes).0);
        Bench::new().try_out(&Raw(b"GGUF\x03\0\0\0".to_vec()).bytes(&bytes).0);
        Bench::new().try_out(&Raw::new(3, 1, 1).bytes(&bytes).0);
    }
}
