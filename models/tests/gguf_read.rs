//! What is in a GGUF file is what is read: metadata, tensors of every type, split models.

use std::path::{Path, PathBuf};
use std::{fs, iter};

use firstword_models::gguf::blocks::{self, Blocks, Offset};
use firstword_models::gguf::{Array, Gguf, GgufError, Kind, Metadata, Value, WriteError, Writer};

mod gguf;

use gguf::{digest, digest_of, noise};

/// From `tests/gguf/blocks.py` (gguf 0.19.0): for 16 blocks of noise, the first four values' bits and the digest of
/// all values.
const DEQUANTISED: [(Kind, [u32; 4], u64); 13] = [
    (
        Kind::F32,
        [0xb4815e3c, 0x8ec65e0c, 0x2c40a304, 0xbb3cd697],
        0xf403babe7f47f93e,
    ),
    (
        Kind::F16,
        [0x3bc78000, 0xbe902000, 0x3bc18000, 0xb9d8c000],
        0x1a4d4d937ed28dbd,
    ),
    (
        Kind::BF16,
        [0x1e3c0000, 0xb4810000, 0x1e0c0000, 0x8ec60000],
        0x37e45bf4fd5628c4,
    ),
    (
        Kind::Q4_0,
        [0xbd2e9000, 0xbcc78000, 0x3cc78000, 0x3d15a000],
        0x85ecd91c23e7b3fd,
    ),
    (
        Kind::Q4_1,
        [0xbe557000, 0xbe48f800, 0xbe7ad800, 0xbe48f800],
        0x47b6db13442d952d,
    ),
    (
        Kind::Q5_0,
        [0x3d15a000, 0xbc478000, 0xbd95a000, 0xbda21800],
        0x48b79b9aad479eff,
    ),
    (
        Kind::Q5_1,
        [0xbe83a800, 0xbe86c600, 0xbe3c8000, 0xbde36000],
        0x2a088a4ee6955eff,
    ),
    (
        Kind::Q8_0,
        [0xbf45f100, 0xbeece800, 0x3d95a000, 0x3f128200],
        0x208469c3381bfe64,
    ),
    (
        Kind::Q2K,
        [0xba84d800, 0xbd2aeec0, 0xbce6ad80, 0xba84d800],
        0x91308c4b3dd25539,
    ),
    (
        Kind::Q3K,
        [0xbadc2c00, 0xba12c800, 0x3adc2c00, 0xbb12c800],
        0x83f953bdaae42637,
    ),
    (
        Kind::Q4K,
        [0x40002c00, 0x3fac2e00, 0x40098600, 0x3fdaf000],
        0x0406a301a2829498,
    ),
    (
        Kind::Q5K,
        [0x3fd19600, 0x40590300, 0x3fb58800, 0x3fb58800],
        0x3b7c31c4bd38c416,
    ),
    (
        Kind::Q6K,
        [0xc5030720, 0x4315bf00, 0x45111108, 0x44609e80],
        0xa7b5942ac1133b1d,
    ),
];

/// From `tests/gguf/blocks.py`: the digest of the bytes that the package makes of 288 floats.
const QUANTISED: [(Kind, u64); 4] = [
    (Kind::F16, 0x42e1f71a0bf99fbf),
    (Kind::BF16, 0xdec04a53f5c438a0),
    (Kind::Q8_0, 0x9359ca2d23f8e8f0),
    (Kind::Q4_0, 0xd3f553413592160a),
];

/// Where the upper byte of a 16-bit float (of a 32-bit one, for F32) lies in a block, as in `blocks.py`.
fn floats(kind: Kind) -> &'static [usize] {
    match kind {
        Kind::F32 => &[3],
        Kind::F16 | Kind::BF16 | Kind::Q4_0 | Kind::Q5_0 | Kind::Q8_0 => &[1],
        Kind::Q4_1 | Kind::Q5_1 | Kind::Q4K | Kind::Q5K => &[1, 3],
        Kind::Q2K => &[81, 83],
        Kind::Q3K => &[109],
        Kind::Q6K => &[209],
    }
}

/// Blocks of noise in which all floats are finite.
fn finite(kind: Kind, blocks: usize) -> Vec<u8> {
    let mut raw = noise(blocks * kind.block_bytes());
    for block in raw.chunks_exact_mut(kind.block_bytes()) {
        for &place in floats(kind) {
            block[place] &= 0xbf;
        }
    }
    raw
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn saved(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn every_type_has_the_values_of_the_python_package() {
    for (kind, first, all) in DEQUANTISED {
        let raw = finite(kind, 16);
        let mut values = vec![0.0; 16 * kind.block()];
        blocks::dequantise(kind, &raw, &mut values);
        assert_eq!(bits(&values[..4]), first, "{kind}");
        assert_eq!(digest_of(&values), all, "{kind}");
    }
}

#[test]
fn codes_and_scales_are_the_same_values_again() {
    let mut unpacked = Blocks::default();
    for (kind, _, all) in DEQUANTISED {
        let raw = finite(kind, 16);
        let has_codes = unpacked.unpack(kind, &raw);
        assert_eq!(has_codes, kind.bits().is_some(), "{kind}");
        if !has_codes {
            continue;
        }
        let values: Vec<f32> = unpacked.values().collect();
        assert_eq!(digest_of(&values), all, "{kind}");
        assert_eq!(
            unpacked.codes.len() / unpacked.group,
            unpacked.scales.len(),
            "{kind}"
        );
        let limit = 1_u32 << unpacked.bits;
        assert!(
            unpacked.codes.iter().all(|&code| u32::from(code) < limit),
            "{kind}"
        );
        // Which formats have minima: ggml-common.h, blocks with `m` or `dmin`.
        let affine = matches!(
            kind,
            Kind::Q4_1 | Kind::Q5_1 | Kind::Q2K | Kind::Q4K | Kind::Q5K
        );
        assert_eq!(
            matches!(unpacked.offset, Offset::Minima(_)),
            affine,
            "{kind}"
        );
    }
}

#[test]
fn floats_are_packed_as_the_python_package_packs_them() {
    let mut values: Vec<f32> = noise(256)
        .iter()
        .map(|&byte| (f32::from(byte) - 128.0) / 40.0)
        .collect();
    values.extend([0.0; 32]);
    for (kind, expected) in QUANTISED {
        let mut raw = Vec::new();
        assert!(blocks::quantise(kind, &values, &mut raw));
        assert_eq!(raw.len(), values.len() / kind.block() * kind.block_bytes());
        assert_eq!(digest(raw), expected, "{kind}");
    }
    let mut raw = Vec::new();
    assert!(
        !blocks::quantise(Kind::Q6K, &values[..256], &mut raw),
        "not written"
    );
    assert!(
        !blocks::quantise(Kind::Q8_0, &values[..33], &mut raw),
        "no whole blocks"
    );
    assert!(raw.is_empty());
}

#[test]
fn what_was_written_is_read_again() {
    let (_folder, path) = saved(&gguf::file());
    let model = Gguf::open(&path).unwrap();
    let mut declared = Writer::default();
    gguf::describe(&mut declared);
    assert_eq!(model.version(), 3);
    assert!(model.metadata().iter().eq(declared.metadata.iter()));

    assert_eq!(model.tensors().len(), Kind::ALL.len() + 2);
    for tensor in model.iter() {
        let info = tensor.info();
        let expected = noise(info.bytes as usize);
        assert_eq!(info.offset % 32, 0);
        let mut raw = Vec::new();
        tensor.raw(0..tensor.rows(), &mut raw).unwrap();
        assert_eq!(raw, expected, "{}", info.name);
        // Rows alone are the same as all.
        for row in 0..tensor.rows() {
            tensor.raw(row..row + 1, &mut raw).unwrap();
            let start = row * tensor.row_bytes();
            assert_eq!(
                raw,
                expected[start..start + tensor.row_bytes()],
                "{} {row}",
                info.name
            );
        }
    }
    let experts = model.tensor("experts.weight").unwrap();
    assert_eq!(
        (experts.rows(), experts.columns(), experts.kind()),
        (4, 32, Kind::Q8_0)
    );
    assert_eq!(experts.info().shape, [32, 2, 2]);
    assert_eq!(model.tensor("norm.weight").unwrap().rows(), 1);
    assert!(model.tensor("no.weight").is_none());
}

#[test]
fn a_matrix_larger_than_a_piece_is_dequantised_whole() {
    // 3000 rows of 1024 values in Q4_0 are 1.7 MB: several reads.
    let mut writer = Writer::default();
    writer.tensor("w", Kind::Q4_0, &[1024, 3000]).unwrap();
    let (_folder, path) = saved(&gguf::bytes(&writer));
    let model = Gguf::open(&path).unwrap();
    let tensor = model.tensor("w").unwrap();
    let mut values = vec![0.0; 1024 * 3000];
    tensor.dequantise(0..3000, &mut values).unwrap();
    let mut expected = vec![0.0; 1024 * 3000];
    blocks::dequantise(Kind::Q4_0, &noise(32 * 18 * 3000), &mut expected);
    assert!(bits(&values) == bits(&expected));
    let mut row = vec![0.0; 1024];
    tensor.dequantise(2999..3000, &mut row).unwrap();
    assert_eq!(bits(&row), bits(&expected[1024 * 2999..]));
    let mut codes = Blocks::default();
    assert!(tensor.codes(2999..3000, &mut codes).unwrap());
    assert_eq!(bits(&codes.values().collect::<Vec<_>>()), bits(&row));
}

#[test]
fn rows_that_are_not_there_are_refused() {
    let (_folder, path) = saved(&gguf::file());
    let model = Gguf::open(&path).unwrap();
    let tensor = model.tensor("Q8_0.weight").unwrap();
    let mut raw = Vec::new();
    for rows in [0..4, 3..4, usize::MAX - 1..usize::MAX] {
        let error = tensor.raw(rows, &mut raw).unwrap_err();
        assert!(matches!(error, GgufError::Request { .. }), "{error}");
    }
    let error = tensor
        .dequantise(0..1, &mut [0.0; 255])
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected 256, found 255"), "{error}");
    tensor.dequantise(3..3, &mut []).unwrap();
}

#[test]
fn a_file_that_is_cut_while_it_is_open_gives_an_error() {
    let (_folder, path) = saved(&gguf::file());
    let model = Gguf::open(&path).unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(4096)
        .unwrap();
    let tensor = model.tensor("Q6_K.weight").unwrap();
    let error = tensor
        .dequantise(0..3, &mut [0.0; 768])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("was cut") && error.contains("model.gguf"),
        "{error}"
    );
}

#[test]
fn version_2_is_read_as_version_3_is() {
    let mut bytes = gguf::file();
    bytes[4] = 2;
    let (_folder, path) = saved(&bytes);
    let model = Gguf::open(&path).unwrap();
    assert_eq!(model.version(), 2);
    assert_eq!(model.metadata().str("general.architecture"), Ok("llama"));
}

#[test]
fn another_alignment_is_kept_to() {
    let mut writer = Writer::default();
    writer.metadata.insert("general.alignment", 4096_u32);
    gguf::declare(&mut writer);
    let bytes = gguf::bytes(&writer);
    assert_eq!(bytes.len() as u64, writer.length().unwrap());
    let (_folder, path) = saved(&bytes);
    let model = Gguf::open(&path).unwrap();
    assert!(
        model
            .tensors()
            .iter()
            .all(|tensor| tensor.offset % 4096 == 0)
    );
    let mut raw = Vec::new();
    model
        .tensor("experts.weight")
        .unwrap()
        .raw(0..4, &mut raw)
        .unwrap();
    assert_eq!(raw, noise(4 * 34));
}

#[test]
fn the_hash_is_that_of_the_file() {
    let (_folder, path) = saved(b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let model = Gguf::open(&path).unwrap();
    let mut done = 0;
    // printf 'GGUF\3\0\0\0\0…' (24 bytes) | sha256sum
    let expected = "a4e5e156ddec27e286f75328784d7106b60a4eb1d246e950a001a3f944fbda99";
    assert_eq!(model.sha256(&mut |bytes| done = bytes).unwrap(), expected);
    assert_eq!(done, 24);
    assert_eq!(model.parts().collect::<Vec<_>>(), [(path.as_path(), 24)]);
}

#[test]
fn getters_say_what_they_expected() {
    let mut metadata = Metadata::of(Path::new("some/model.gguf"));
    metadata.insert("n", 5_i32);
    metadata.insert("negative", -5_i32);
    metadata.insert("x", 0.5_f64);
    metadata.insert("text", "hello");
    metadata.insert("odd", Value::String(vec![0xff]));
    metadata.insert("numbers", vec![1_u8, 2]);
    metadata.insert("nested", Value::Array(Array::Nested { len: 3 }));
    assert_eq!(metadata.u64("n"), Ok(5));
    assert_eq!(metadata.f32("x"), Ok(0.5));
    assert_eq!(metadata.find::<usize>("n"), Ok(Some(5)));
    assert_eq!(metadata.find::<usize>("none"), Ok(None));
    assert_eq!(metadata.i32s("numbers"), Ok(vec![1, 2]));
    assert_eq!(metadata.u32_per_layer("numbers", 2), Ok(vec![1, 2]));
    assert_eq!(metadata.u32_per_layer("n", 3), Ok(vec![5, 5, 5]));
    let errors = [
        (
            metadata.u64("llama.block_count").unwrap_err(),
            "no metadata key `llama.block_count` (expected an unsigned",
        ),
        (
            metadata.u64("negative").unwrap_err(),
            "expected an unsigned integer, found i32 -5",
        ),
        (
            metadata.u64("x").unwrap_err(),
            "expected an unsigned integer, found f64 0.5",
        ),
        (
            metadata.f32("n").unwrap_err(),
            "expected a float, found i32 5",
        ),
        (
            metadata.bool("text").unwrap_err(),
            "expected a bool, found string `hello`",
        ),
        (
            metadata.str("odd").unwrap_err(),
            "expected a string in UTF-8, found string `\u{fffd}`",
        ),
        (
            metadata.strs("numbers").unwrap_err(),
            "expected an array of strings in UTF-8, found an array of 2 u8",
        ),
        (
            metadata.f32s("nested").unwrap_err(),
            "expected an array of floats, found an array of 3 array",
        ),
        (
            metadata.u32_per_layer("numbers", 3).unwrap_err(),
            "expected one number for each layer, found 2 for 3 layers",
        ),
    ];
    for (error, expected) in errors {
        let error = error.to_string();
        assert!(
            error.contains(expected) && error.contains("some/model.gguf"),
            "{error}"
        );
    }
}

/// Part `number` (from 0) of `count`, holding these tensors.
fn part(folder: &Path, number: u16, count: u16, tensors: &[&str], all: i32) -> PathBuf {
    let mut writer = Writer::default();
    if number == 0 {
        writer.metadata.insert("general.architecture", "llama");
    }
    writer.metadata.insert("split.no", number);
    writer.metadata.insert("split.count", count);
    writer.metadata.insert("split.tensors.count", all);
    for name in tensors {
        writer.tensor(name, Kind::F32, &[8]).unwrap();
    }
    let path = folder.join(format!("m-{:05}-of-{count:05}.gguf", number + 1));
    fs::write(&path, gguf::bytes(&writer)).unwrap();
    path
}

#[test]
fn any_part_of_a_split_model_opens_it_all() {
    let folder = tempfile::tempdir().unwrap();
    let parts = [
        part(folder.path(), 0, 3, &[], 3),
        part(folder.path(), 1, 3, &["a", "b"], 3),
        part(folder.path(), 2, 3, &["c"], 3),
    ];
    for path in &parts {
        let model = Gguf::open(path).unwrap();
        assert_eq!(model.metadata().str("general.architecture"), Ok("llama"));
        assert!(
            model
                .parts()
                .map(|(path, _)| path.to_owned())
                .eq(parts.iter().cloned())
        );
        let names: Vec<_> = model
            .tensors()
            .iter()
            .map(|tensor| tensor.name.as_str())
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
        let mut raw = Vec::new();
        model.tensor("c").unwrap().raw(0..1, &mut raw).unwrap();
        assert_eq!(raw, noise(32));

        let mut done = 0;
        let whole: Vec<u8> = parts
            .iter()
            .flat_map(|path| fs::read(path).unwrap())
            .collect();
        let together = folder.path().join("together");
        fs::write(&together, &whole).unwrap();
        let expected = sha256(&whole);
        assert_eq!(model.sha256(&mut |bytes| done = bytes).unwrap(), expected);
        assert_eq!(done, whole.len() as u64);
    }
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn a_split_model_that_is_not_whole_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let refusal = |path: &Path| {
        let error = Gguf::open(path).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    let first = part(folder, 0, 3, &["a"], 2);
    let error = refusal(&first);
    assert!(
        error.contains("m-00002-of-00003.gguf is missing") && error.contains("2 of them absent"),
        "{error}"
    );

    let second = part(folder, 1, 3, &["b"], 2);
    let third = part(folder, 2, 3, &["b"], 2);
    let error = refusal(&second);
    assert!(
        error.contains("m-00003") && error.contains("found `b` in two"),
        "{error}"
    );

    part(folder, 2, 3, &["c"], 2);
    let error = refusal(&second);
    assert!(
        error.contains("number of tensors in all parts: expected 2, found 3"),
        "{error}"
    );

    fs::copy(&first, &third).unwrap();
    let error = refusal(&second);
    assert!(
        error.contains("m-00003") && error.contains("expected 2, found 0"),
        "{error}"
    );
    let error = refusal(&third);
    assert!(
        error.contains("part 1 of 3") && error.contains("-00001-of-00003.gguf"),
        "{error}"
    );

    let renamed = folder.join("mine.gguf");
    fs::copy(&second, &renamed).unwrap();
    let error = refusal(&renamed);
    assert!(
        error.contains("mine.gguf is part 2 of 3") && error.contains("-00002-of-00003.gguf"),
        "{error}"
    );

    fs::write(&third, b"GGUF").unwrap();
    assert!(refusal(&first).contains("m-00003-of-00003.gguf is damaged"));
}

#[test]
fn a_writer_refuses_what_no_reader_takes() {
    let mut writer = Writer::default();
    writer.tensor("w", Kind::Q8_0, &[32, 2]).unwrap();
    for (name, kind, shape) in [
        ("w", Kind::F32, &[1][..]),
        ("", Kind::F32, &[1]),
        ("a", Kind::F32, &[]),
        ("a", Kind::F32, &[1, 1, 1, 1, 1]),
        ("a", Kind::F32, &[4, 0]),
        ("a", Kind::Q4K, &[32, 8]),
        ("a", Kind::F32, &[1 << 40, 1 << 40]),
    ] {
        let refusal = writer.tensor(name, kind, shape);
        assert!(
            matches!(refusal, Err(WriteError::Tensor { .. })),
            "{name} {kind} {shape:?}"
        );
    }

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    for (bytes, expected) in [
        (67, "expected 68 bytes, found 67"),
        (69, "expected 68 bytes, found more"),
    ] {
        let written = writer.save(&path, &mut |_, out| out.write_all(&vec![1; bytes]));
        let error = written.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(
            folder.path().read_dir().unwrap().count(),
            0,
            "nothing half-written is left"
        );
    }
    writer
        .save(&path, &mut |_, out| out.write_all(&[1; 68]))
        .unwrap();
    assert_eq!(path.metadata().unwrap().len(), writer.length().unwrap());
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);

    writer
        .metadata
        .insert("deep", Value::Array(Array::Nested { len: 1 }));
    assert!(matches!(writer.length(), Err(WriteError::Value { .. })));
}

/// Models of the store that are known: the file's bytes, and from `tests/gguf/blocks.py FILE` the digest of a
/// tensor's first rows.
const KNOWN: [(u64, &[(&str, usize, u64)]); 2] = [
    (
        98_362_432, // SmolLM2-135M-Instruct.Q4_1.gguf
        &[
            ("token_embd.weight", 5, 0x47769ef0667fe783), // Q8_0
            ("blk.0.attn_norm.weight", 1, 0x2fd19cd884448866), // F32
            ("blk.0.ffn_down.weight", 5, 0xd559462bef1b0501), // Q4_1
        ],
    ),
    (
        253_113_024, // gemma-3-270m Q4_K_M
        &[
            ("output_norm.weight", 1, 0x11c22e7acf60d9d7),  // F32
            ("token_embd.weight", 5, 0xc4b224e92a18362d),   // Q8_0
            ("blk.0.attn_k.weight", 5, 0x356d79bd2ad51842), // Q5_0
            ("blk.0.attn_output.weight", 5, 0x8bae911617c4afce), // Q4_K
            ("blk.0.ffn_down.weight", 5, 0xda29369917c77994), // Q6_K
        ],
    ),
];

#[test]
fn real_files_have_the_values_of_the_python_package() {
    let root = std::env::var_os("FIRSTWORD_HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    let mut folders = vec![(root, 0)];
    let mut found = 0;
    while let Some((folder, depth)) = folders.pop() {
        for path in folder
            .read_dir()
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
        {
            if path.is_dir() && depth < 3 {
                folders.push((path, depth + 1));
            } else if path
                .extension()
                .is_some_and(|extension| extension == "gguf")
            {
                found += usize::from(agrees(&path));
            }
        }
    }
    if found == 0 {
        println!("skipped: no known GGUF file under FIRSTWORD_HOME");
    }
}

fn agrees(path: &Path) -> bool {
    let bytes = path.metadata().unwrap().len();
    let Some((_, tensors)) = KNOWN.iter().find(|(known, _)| *known == bytes) else {
        return false;
    };
    let model = Gguf::open(path).unwrap();
    for &(name, rows, expected) in *tensors {
        let tensor = model.tensor(name).unwrap();
        let mut values: Vec<f32> = iter::repeat_n(0.0, rows * tensor.columns()).collect();
        tensor.dequantise(0..rows, &mut values).unwrap();
        assert_eq!(digest_of(&values), expected, "{} {name}", path.display());
    }
    true
}
