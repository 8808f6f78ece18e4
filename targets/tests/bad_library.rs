//! Every way in which there is no ONNX Runtime: each told apart, in one line, with what to do.
//!
//! Nothing here ends in a loaded library, so the cases can share a process.

use std::path::{Path, PathBuf};
use std::process::Command;

use firstword_targets::{LibraryError, Search};
use tempfile::TempDir;

/// A 64-byte ELF-64 header with one program header behind it (System V ABI, "Object Files").
fn elf(class: u8, machine: u16, kind: u16, segment_bytes: u64) -> Vec<u8> {
    let mut file = vec![0_u8; 64 + 56];
    file[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
    file[16..18].copy_from_slice(&kind.to_le_bytes());
    file[18..20].copy_from_slice(&machine.to_le_bytes());
    file[32..40].copy_from_slice(&64_u64.to_le_bytes()); // e_phoff
    file[54..56].copy_from_slice(&56_u16.to_le_bytes()); // e_phentsize
    file[56..58].copy_from_slice(&1_u16.to_le_bytes()); // e_phnum
    file[64..68].copy_from_slice(&1_u32.to_le_bytes()); // PT_LOAD
    file[96..104].copy_from_slice(&segment_bytes.to_le_bytes()); // p_filesz
    file
}

const HERE: u16 = if cfg!(target_arch = "aarch64") {
    183
} else {
    62
};
const ELSEWHERE: (u16, &str) = if cfg!(target_arch = "aarch64") {
    (62, "x86-64")
} else {
    (183, "aarch64")
};

/// Compiles `source` to a shared library.
fn compiled(folder: &Path, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
    let (code, library) = (
        folder.join(format!("{name}.c")),
        folder.join(format!("{name}.so")),
    );
    std::fs::write(&code, source).expect("a fresh folder");
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &code])
        .args(arguments)
        .status()
        .expect("Rust links with cc, so it is here");
    assert!(status.success());
    library
}

/// A library that says it is ONNX Runtime `version`, and has no function table at all.
fn impostor(folder: &Path, name: &str, version: &str) -> PathBuf {
    let source = format!(
        "static const void *api(unsigned version) {{ return 0; }}\n\
         static const char *version(void) {{ return {version}; }}\n\
         static const struct {{ const void *(*api)(unsigned); const char *(*version)(void); }} base = {{ api, version }};\n\
         const void *OrtGetApiBase(void) {{ return &base; }}\n"
    );
    compiled(folder, name, &source, &[])
}

fn refusal(path: &Path) -> String {
    let search = Search {
        environment: Some(path.to_owned()),
        ..Search::default()
    };
    let error = search.load().expect_err("this is no ONNX Runtime");
    assert!(matches!(error, LibraryError::Unusable { .. }), "{error:?}");
    let text = error.to_string();
    assert!(!text.contains('\n'), "one line: {text}");
    assert!(
        text.contains(&path.display().to_string()),
        "names the path: {text}"
    );
    assert!(
        text.contains("ORT_DYLIB_PATH") && text.contains("firstword model pull onnxruntime"),
        "says what to do: {text}"
    );
    text
}

fn written(folder: &TempDir, name: &str, contents: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, contents).expect("a fresh folder");
    path
}

#[test]
fn a_file_that_is_no_library_is_called_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&str, Vec<u8>, &str); 8] = [
        ("empty", vec![], "an empty file"),
        ("text", b"#!/bin/sh\n".to_vec(), "a text file"),
        (
            "wheel",
            b"PK\x03\x04\x14\0".to_vec(),
            "a zip archive or wheel",
        ),
        ("noise", vec![0, 1, 2, 3], "unknown contents"),
        ("other-machine", elf(2, ELSEWHERE.0, 3, 120), ELSEWHERE.1),
        ("32-bit", elf(1, 3, 3, 120), "32-bit library"),
        (
            "object",
            elf(2, HERE, 1, 120),
            "an object file or a program",
        ),
        (
            "big-endian",
            [b"\x7fELF\x02\x02\x01".to_vec(), vec![0; 113]].concat(),
            "big-endian",
        ),
    ];
    for (name, contents, expected) in cases {
        let text = refusal(&written(&folder, name, &contents));
        assert!(text.contains(expected), "{name}: {text}");
    }
}

#[test]
fn a_library_cut_short_is_refused_before_it_can_crash_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let header_only = refusal(&written(&folder, "header", &elf(2, HERE, 3, 120)[..40]));
    assert!(
        header_only.contains("cut short") && header_only.contains("40"),
        "{header_only}"
    );
    let table = refusal(&written(&folder, "table", &elf(2, HERE, 3, 120)[..100]));
    assert!(table.contains("cut short"), "{table}");
    let segments = refusal(&written(&folder, "segments", &elf(2, HERE, 3, 29_000_000)));
    assert!(
        segments.contains("29000000 bytes, the file has 120"),
        "{segments}"
    );
    let endless = refusal(&written(&folder, "endless", &elf(2, HERE, 3, u64::MAX)));
    assert!(endless.contains("cut short"), "{endless}");

    let whole = std::fs::read(compiled(
        folder.path(),
        "whole",
        "int answer(void) { return 42; }",
        &[],
    ))
    .unwrap();
    let cut = refusal(&written(
        &folder,
        "cut",
        &whole[..0x2000.min(whole.len() / 2)],
    ));
    assert!(cut.contains("cut short"), "{cut}");
}

#[test]
fn nothing_there_an_empty_folder_and_a_device_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refusal(&folder.path().join("absent.so")).contains("does not exist"));
    assert!(refusal(folder.path()).contains("a folder without a libonnxruntime.so"));
    assert!(refusal(Path::new("/dev/null")).contains("neither a file nor a folder"));
}

#[test]
fn another_library_is_not_taken_for_onnx_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let other = compiled(
        folder.path(),
        "other",
        "int answer(void) { return 42; }",
        &[],
    );
    assert!(refusal(&other).contains("not ONNX Runtime"));
    let null = compiled(
        folder.path(),
        "null",
        "void *OrtGetApiBase(void) { return 0; }",
        &[],
    );
    assert!(refusal(&null).contains("not ONNX Runtime"));
}

#[test]
fn an_old_library_is_refused_with_its_version() {
    let folder = tempfile::tempdir().unwrap();
    for version in ["1.17.0", "1.10.0"] {
        let text = refusal(&impostor(folder.path(), version, &format!("\"{version}\"")));
        assert!(
            text.contains(&format!("version {version}, too old: 1.18 or newer")),
            "{text}"
        );
    }
}

#[test]
fn a_library_that_lies_about_itself_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let hollow = refusal(&impostor(folder.path(), "hollow", "\"1.31.1\""));
    assert!(
        hollow.contains("says it is version 1.31.1 but lacks the functions of 1.18"),
        "{hollow}"
    );
    assert!(
        refusal(&impostor(folder.path(), "mute", "0")).contains("gives nothing as its version")
    );
    let odd = refusal(&impostor(folder.path(), "odd", "\"two\\nlines\""));
    assert!(odd.contains("gives 'two lines' as its version"), "{odd}");
}

#[test]
fn a_library_whose_own_needs_are_missing_says_which() {
    let folder = tempfile::tempdir().unwrap();
    let needed = compiled(
        folder.path(),
        "libneeded",
        "int needed(void) { return 1; }",
        &[],
    );
    let needy = compiled(
        folder.path(),
        "needy",
        "int needed(void); const void *OrtGetApiBase(void) { return needed() ? (void *)1 : 0; }",
        &["-Wl,--no-as-needed", needed.to_str().unwrap()],
    );
    std::fs::remove_file(&needed).unwrap();
    let text = refusal(&needy);
    assert!(
        text.contains("the dynamic linker says") && text.contains("libneeded.so"),
        "{text}"
    );
}

#[test]
fn a_named_place_that_fails_is_never_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let bad = written(&folder, "libonnxruntime.so", b"text");
    let absent = folder.path().join("absent");
    // The flag comes before the environment, the environment before the configuration.
    let search = Search {
        flag: Some(absent.clone()),
        environment: Some(bad.clone()),
        configuration: Some(bad.clone()),
        beside: Some(folder.path().to_owned()),
        cache: Some(folder.path().to_owned()),
    };
    let text = search.load().unwrap_err().to_string();
    assert!(
        text.contains("absent (from the flag) does not exist"),
        "{text}"
    );
    let search = Search {
        flag: None,
        ..search
    };
    assert!(
        search
            .load()
            .unwrap_err()
            .to_string()
            .contains("(from ORT_DYLIB_PATH)")
    );
    let search = Search {
        environment: Some(PathBuf::new()),
        ..search
    };
    let text = search.load().unwrap_err().to_string();
    assert!(
        text.contains("(from the configuration)"),
        "an empty ORT_DYLIB_PATH is none: {text}"
    );
}

#[test]
fn with_nothing_anywhere_the_places_looked_at_are_listed() {
    let (beside, cache) = (tempfile::tempdir().unwrap(), PathBuf::from("no/such/cache"));
    let search = Search {
        beside: Some(beside.path().to_owned()),
        cache: Some(cache),
        ..Search::default()
    };
    let error = search.load().unwrap_err();
    assert!(matches!(error, LibraryError::NotFound { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains(&beside.path().display().to_string()) && text.contains("no/such/cache"),
        "{text}"
    );
    assert!(
        text.contains("firstword model pull onnxruntime") && text.contains("ORT_DYLIB_PATH"),
        "{text}"
    );
    assert!(
        Search::default()
            .load()
            .unwrap_err()
            .to_string()
            .contains("any place")
    );
}

#[test]
fn a_bad_library_beside_the_program_is_reported_when_the_cache_has_none_either() {
    let folder = tempfile::tempdir().unwrap();
    written(&folder, "libonnxruntime.so.1.31.1", b"text");
    let search = Search {
        beside: Some(folder.path().to_owned()),
        cache: Some("no/such/cache".into()),
        ..Search::default()
    };
    let text = search.load().unwrap_err().to_string();
    assert!(
        text.contains(
            "libonnxruntime.so.1.31.1 (from the folder of the program) is not a shared library"
        ),
        "{text}"
    );
}
