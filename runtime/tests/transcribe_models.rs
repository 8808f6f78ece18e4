//! Models and libraries that are damaged, missing or not what they should be: one line, and the right code.

#![allow(clippy::unwrap_used)]

mod heard;
mod program;
mod score;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;

use program::{FORWARD, Home, assert_heard, complaints, shared_clip, text};

/// The program's one complaint, after which it printed nothing.
fn refusal(output: &Output, code: i32) -> String {
    let said = complaints(output, code);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    said.into_iter().next().unwrap()
}

/// Exchanges the middle of a file, so that its size stays.
fn overwrite(path: &Path) {
    let mut content = fs::read(path).unwrap();
    let middle = content.len() / 2;
    for byte in &mut content[middle - 2000..middle + 2000] {
        *byte ^= 0x55;
    }
    fs::write(path, content).unwrap();
}

fn cut(path: &Path) {
    let length = path.metadata().unwrap().len();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(length / 2).unwrap();
}

#[test]
fn a_damaged_model_is_named_with_what_to_do() {
    let (Some(home), Some(clip)) = (Home::copied(), shared_clip("goforward.wav")) else {
        return;
    };
    let files = [
        ("moonshine-tiny-en", "encoder_model.ort"),
        ("moonshine-tiny-en", "decoder_model_merged.ort"),
        ("moonshine-tiny-en", "tokenizer.bin"),
        ("silero-vad", "silero_vad_16k_sequence.onnx"),
    ];
    for (model, file) in files {
        let path = home.path("models").join(model).join(file);
        let whole = fs::read(&path).unwrap();
        for damage in [cut, |path: &Path| fs::remove_file(path).unwrap()] {
            damage(&path);
            let said = refusal(&home.transcribe([&clip]), 3);
            assert!(said.contains(file), "{said}");
            assert!(
                said.contains(&format!("firstword model pull {model}")),
                "{said}"
            );
            fs::write(&path, &whole).unwrap();
        }
    }
}

#[test]
fn a_model_replaced_by_one_of_the_same_size_is_found_out() {
    let (Some(home), Some(clip)) = (Home::copied(), shared_clip("goforward.wav")) else {
        return;
    };
    for file in ["encoder_model.ort", "tokenizer.bin"] {
        let path = home.path("models/moonshine-tiny-en").join(file);
        let whole = fs::read(&path).unwrap();
        overwrite(&path);
        let said = refusal(&home.transcribe([&clip]), 3);
        assert!(said.contains(file), "{said}");
        assert!(
            said.contains("firstword model pull moonshine-tiny-en"),
            "{said}"
        );
        fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn a_misspelt_model_is_answered_with_the_nearest_name() {
    let (Some(home), Some(clip)) = (Home::new(), shared_clip("goforward.wav")) else {
        return;
    };
    let clip = clip.to_str().unwrap();
    let said = refusal(&home.transcribe(["--model", "moonshine-tny-en", clip]), 3);
    assert!(
        said.contains("'moonshine-tiny-en'") || said.contains("moonshine-tiny-en?"),
        "{said}"
    );
    let said = refusal(&home.transcribe(["--model", "./no/such/folder", clip]), 3);
    assert!(said.contains("no/such/folder"), "{said}");
    // Another kind of model is none that listens.
    let said = refusal(&home.transcribe(["--model", "silero-vad", clip]), 3);
    assert!(said.contains("silero-vad"), "{said}");
    let said = refusal(&home.transcribe(["--target", "cpuu", clip]), 2);
    assert!(said.contains("cpu"), "{said}");
}

#[test]
fn a_model_folder_of_ones_own_works_and_is_told_what_it_lacks() {
    let (Some(home), Some(clip)) = (Home::new(), shared_clip("goforward.wav")) else {
        return;
    };
    let own = home.path("own");
    fs::create_dir(&own).unwrap();
    let model = home.path("models/moonshine-tiny-en");
    for file in [
        "encoder_model.ort",
        "decoder_model_merged.ort",
        "tokenizer.bin",
    ] {
        symlink(model.join(file), own.join(file)).unwrap();
    }
    let clip = clip.to_str().unwrap();
    let output = home.transcribe(["--model", "./own", clip]);
    assert!(complaints(&output, 0).is_empty());
    assert_heard(FORWARD, &text(&output.stdout));
    let encoder = own.join("encoder_model.ort");
    fs::remove_file(&encoder).unwrap();
    fs::write(&encoder, "not a model").unwrap();
    let said = refusal(&home.transcribe(["--model", "./own", clip]), 3);
    assert!(said.contains("encoder_model.ort"), "{said}");
    fs::remove_file(&encoder).unwrap();
    symlink(model.join("encoder_model.ort"), &encoder).unwrap();
    let tokenizer = own.join("tokenizer.bin");
    let whole = fs::read(&tokenizer).unwrap();
    fs::remove_file(&tokenizer).unwrap();
    fs::write(&tokenizer, &whole[..whole.len() / 2]).unwrap();
    let said = refusal(&home.transcribe(["--model", "./own", clip]), 3);
    assert!(said.contains("tokenizer.bin"), "{said}");
    fs::remove_file(&tokenizer).unwrap();
    let said = refusal(&home.transcribe(["--model", "./own", clip]), 3);
    assert!(said.contains("tokenizer.bin is missing"), "{said}");
}

#[test]
fn a_library_that_is_none_is_named_with_what_to_do() {
    let (Some(home), Some(clip)) = (Home::new(), shared_clip("goforward.wav")) else {
        return;
    };
    let clip = clip.to_str().unwrap();
    let library = |path: &Path| {
        let path = path.to_str().unwrap();
        refusal(&home.transcribe(["--ort-library", path, clip]), 4)
    };
    let said = library(&home.path("no-such.so"));
    assert!(said.contains("no-such.so"), "{said}");
    let said = library(&home.file("text.so", "not a library"));
    assert!(said.contains("text.so"), "{said}");
    // The machine stands at offset 18 of an ELF header (System V ABI): another one.
    let mut content = fs::read(library_file(&home)).unwrap();
    let other: u16 = if content[18] == 0xb7 { 0x3e } else { 0xb7 };
    content[18..20].copy_from_slice(&other.to_le_bytes());
    let said = library(&home.file("foreign.so", &content));
    assert!(said.contains("foreign.so"), "{said}");
    assert!(
        said.contains("aarch64") || said.contains("x86_64"),
        "{said}"
    );
    let said = library(&home.file("cut.so", &content[..content.len() / 2]));
    assert!(said.contains("cut.so"), "{said}");

    fs::remove_file(home.path("lib")).unwrap();
    let said = refusal(&home.transcribe([clip]), 4);
    assert!(said.contains("firstword model pull"), "{said}");
}

#[test]
fn a_library_damaged_in_the_middle_is_found_out_before_it_is_opened() {
    let (Some(home), Some(clip)) = (Home::copied(), shared_clip("goforward.wav")) else {
        return;
    };
    // Opened, it would end the process with a segmentation fault and no word.
    overwrite(&library_file(&home));
    let said = refusal(&home.transcribe([&clip]), 3);
    assert!(said.contains("firstword model pull onnxruntime"), "{said}");
}

/// The library in a home's store.
fn library_file(home: &Home) -> PathBuf {
    let folder = heard::store().library_folder().unwrap();
    let here = home.path("lib").join(folder.file_name().unwrap());
    fs::read_dir(here)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains("libonnxruntime.so"))
        .unwrap()
}
