//! Merging, refusing and writing back configurations.

use proptest::prelude::*;

use super::*;

fn load(text: &[u8], environment: &[(&str, &str)], flags: &[Override]) -> Result<Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    let environment: Environment = environment.iter().copied().collect();
    let place = Place::new(&environment);
    Config::load(&Source::Usual(path), &environment, &place, flags).map_err(|error| {
        error
            .to_string()
            .replace(&folder.path().display().to_string(), "DIR")
    })
}

fn refusal(text: &str) -> String {
    load(text.as_bytes(), &[], &[]).unwrap_err()
}

#[test]
fn a_flag_beats_the_environment_and_the_environment_beats_the_file() {
    let file =
        b"[onnxruntime]\nthreads = 2\n[speech]\nmodel = \"from-file\"\ntarget = \"openvino\"\n";
    let environment = [
        ("FIRSTWORD_ONNXRUNTIME_THREADS", "3"),
        ("FIRSTWORD_SPEECH_MODEL", "from-variable"),
    ];
    let flag = Override {
        section: "onnxruntime",
        key: "threads",
        flag: "--threads",
        value: "4".into(),
    };
    let config = load(file, &environment, &[flag]).unwrap();
    assert_eq!(config.settings.onnxruntime.threads, 4);
    assert_eq!(config.settings.speech.model, "from-variable");
    assert_eq!(config.settings.speech.target, "openvino");
    assert_eq!(
        config.origin("onnxruntime", "threads"),
        Some(&Origin::Flag("--threads"))
    );
    assert_eq!(
        config.origin("speech", "model"),
        Some(&Origin::Environment("FIRSTWORD_SPEECH_MODEL".to_owned()))
    );
    assert!(matches!(
        config.origin("speech", "target"),
        Some(Origin::File { line: 5, .. })
    ));
    assert_eq!(config.origin("log", "latency"), Some(&Origin::Default));
}

#[test]
fn our_own_variable_beats_that_of_the_ort_crate() {
    let both = [
        ("ORT_DYLIB_PATH", "/a.so"),
        ("FIRSTWORD_ONNXRUNTIME_LIBRARY", "/b.so"),
    ];
    let config = load(b"", &both, &[]).unwrap();
    assert_eq!(config.settings.onnxruntime.library, Some("/b.so".into()));
    let config = load(b"[onnxruntime]\nlibrary = \"/c.so\"", &both[..1], &[]).unwrap();
    assert_eq!(config.settings.onnxruntime.library, Some("/a.so".into()));
}

#[test]
fn a_mistyped_name_is_refused_where_it_stands_with_the_nearest_name() {
    assert_eq!(
        refusal("[speech]\nmodle = \"x\"\n"),
        "DIR/config.toml:2:1: unknown key \"modle\" in [speech]; did you mean \"model\"?"
    );
    assert_eq!(
        refusal("\n[speach]\n"),
        "DIR/config.toml:2:2: unknown section [speach]; did you mean [speech]?"
    );
    assert_eq!(
        refusal("[speech]\nthreshold = 0.5\n"),
        "DIR/config.toml:2:1: unknown key \"threshold\" in [speech]; it belongs in [voice_activity]"
    );
    assert!(refusal("threads = 2").contains("it belongs in [onnxruntime]"));
    let error = load(b"", &[("FIRSTWORD_SPEECH_MODLE", "x")], &[]).unwrap_err();
    assert_eq!(
        error,
        "FIRSTWORD_SPEECH_MODLE: no such setting; did you mean FIRSTWORD_SPEECH_MODEL?"
    );
}

#[test]
fn a_wrong_value_is_refused_with_what_was_expected_and_what_was_found() {
    assert_eq!(
        refusal("[voice_activity]\nthreshold = 7\n"),
        "DIR/config.toml:2:13: voice_activity.threshold: expected a number from 0.01 to 0.99, found the number 7"
    );
    assert_eq!(
        refusal("[speech]\npartial_interval = 300\n"),
        "DIR/config.toml:2:20: speech.partial_interval: expected a time from \"50ms\" to \"10s\" (with its unit: ms, s \
         or min), found the number 300"
    );
    let error = load(b"", &[("FIRSTWORD_LOG_LATENCY", "maybe")], &[]).unwrap_err();
    assert_eq!(
        error,
        "FIRSTWORD_LOG_LATENCY: expected true or false, found \"maybe\""
    );
    assert!(refusal("[onnxruntime]\nthreads = -1").contains("from 0 to 1024, found the number -1"));
    assert_eq!(
        refusal("speech = 3"),
        "DIR/config.toml:1:1: expected a table [speech] with keys, found the number 3"
    );
}

#[test]
fn every_refusal_is_one_line_with_a_position() {
    for text in [
        &b"[speech"[..],
        b"\xff",
        b"[speech]\nmodel = \"\xc3\x28\"",
        b"a = [\n1,,",
        b"\x00",
        b"[speech]\n[speech]\n",
    ] {
        let error = load(text, &[], &[]).unwrap_err();
        assert!(error.starts_with("DIR/config.toml:"), "{error}");
        assert!(!error.contains('\n'), "{error:?}");
    }
    assert_eq!(
        refusal("[speech]\nmodel = \"a"),
        "DIR/config.toml:2:11: not TOML: invalid basic string, expected `\"`"
    );
}

#[test]
fn a_byte_order_mark_is_no_obstacle() {
    let config = load("\u{feff}[speech]\nmodel = \"m\"\n".as_bytes(), &[], &[]).unwrap();
    assert_eq!(config.settings.speech.model, "m");
}

#[test]
fn deep_nesting_is_refused_without_exhausting_the_stack() {
    let text = format!("a = {}", "[".repeat(100_000));
    assert!(load(text.as_bytes(), &[], &[]).is_err());
}

#[test]
fn relative_paths_count_from_the_file_and_tilde_is_home() {
    let text =
        b"[speech]\nmodel = \"./tiny\"\n[models]\nfolder = \"store\"\n[log]\nfolder = \"~/log\"\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    let environment: Environment = [("HOME", "/home/ada")].into_iter().collect();
    let place = Place::new(&environment);
    let config = Config::load(&Source::Usual(path), &environment, &place, &[]).unwrap();
    assert_eq!(
        config.settings.models.folder,
        Some(folder.path().join("store"))
    );
    assert_eq!(config.settings.log.folder, Some("/home/ada/log".into()));
    assert_eq!(
        Path::new(&config.settings.speech.model),
        folder.path().join("tiny")
    );
}

#[test]
fn a_named_file_must_exist_and_a_folder_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let environment = Environment::default();
    let place = Place::new(&environment);
    let load = |path: PathBuf| {
        let source = Source::choose(Some(&path), &environment, &place);
        Config::load(&source, &environment, &place, &[])
            .unwrap_err()
            .to_string()
    };
    assert!(
        load(folder.path().join("none.toml")).ends_with("no such file (named by flag --config)")
    );
    assert!(
        load(folder.path().to_owned()).ends_with("expected a configuration file, found a folder")
    );
    assert!(load("/dev/zero".into()).contains("more than 1 MiB"));
}

/// Text that a key of this kind accepts.
fn accepted(kind: Kind) -> BoxedStrategy<String> {
    match kind {
        Kind::Switch => any::<bool>().prop_map(|on| on.to_string()).boxed(),
        Kind::Count { least, most, .. } => (least..=most).prop_map(|n| n.to_string()).boxed(),
        Kind::Ratio { least, most } => (least..=most).prop_map(|x| format!("{x:?}")).boxed(),
        Kind::Time { least, most } => (least.as_nanos() as u64..=most.as_nanos() as u64)
            .prop_map(|nanos| time_text(std::time::Duration::from_nanos(nanos)))
            .boxed(),
        Kind::Name => "[^\\x00]{0,20}x".boxed(),
        Kind::OneOf(texts) => proptest::sample::select(texts)
            .prop_map(str::to_owned)
            .boxed(),
        Kind::Model => "[^\\x00]{0,20}x".boxed(),
        Kind::Path => "(/[^\\x00]{1,12}){0,3}".boxed(),
    }
}

fn all_values() -> impl Strategy<Value = Vec<(String, String)>> {
    settings()
        .map(|setting| accepted(setting.kind).prop_map(|text| (setting.variable(), text)))
        .collect::<Vec<_>>()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_printed_reads_back_as_the_same_configuration(values in all_values()) {
        let environment: Environment = values.into_iter().collect();
        let place = Place::new(&Environment::default());
        let first = Config::load(&Source::None, &environment, &place, &[]).unwrap();
        let printed = first.to_toml(|_| Some("/note".to_owned()));
        let second = load(printed.as_bytes(), &[], &[]);
        prop_assert_eq!(&second.as_ref().map(|c| &c.settings), &Ok(&first.settings), "{}", printed);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = file::parse(Path::new("x"), &bytes);
    }

    #[test]
    fn arbitrary_text_made_of_toml_pieces_never_panics(
        pieces in proptest::collection::vec(
            proptest::sample::select(vec![
                "[", "]", "[[", "]]", "speech", "model", "=", "\"", "\"\"\"", "'", "{", "}", ",", "\n", " ", "#",
                "1", "-", "0x", "1e999", "nan", "300ms", ".", "\\u", "\\", "é", "\u{202e}", "1979-05-27", "true",
            ]),
            0..60,
        )
    ) {
        let _ = file::parse(Path::new("x"), pieces.concat().as_bytes());
    }
}
