//! One process, one library. A file of its own: every other test would get the same library.

mod onnxruntime;

use firstword_targets::{LibraryError, Origin, Search};

#[test]
fn the_library_is_opened_once_and_another_one_is_refused() {
    let Some(search) = onnxruntime::search() else {
        return;
    };

    // A failure first: it must not spoil the search that follows.
    let nowhere = Search {
        flag: Some("no/such/file".into()),
        ..Search::default()
    };
    assert!(nowhere.load().is_err());

    let library = search.load().unwrap();
    let minor: u32 = library.version.split('.').nth(1).unwrap().parse().unwrap();
    assert!(minor >= 18, "{}", library.version);
    assert!(library.to_string().contains(&library.version), "{library}");

    let again = search.load().unwrap();
    assert!(std::ptr::eq(library, again), "the same library comes back");

    // The folder of the file, by another way: still the same file.
    let folder = Search {
        cache: library.path.parent().map(Into::into),
        ..Search::default()
    };
    assert!(std::ptr::eq(library, folder.load().unwrap()));

    let copy = tempfile::tempdir().unwrap();
    let other = copy.path().join("libonnxruntime.so");
    std::fs::copy(&library.path, &other).unwrap();
    let error = Search {
        flag: Some(other.clone()),
        ..Search::default()
    }
    .load()
    .unwrap_err();
    assert!(
        matches!(error, LibraryError::AlreadyLoaded { .. }),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(
        text.contains(&other.display().to_string()) && !text.contains('\n'),
        "{text}"
    );

    // A bad place that was named stays an error, even with a library at hand.
    let named = Search {
        flag: Some("no/such/file".into()),
        cache: folder.cache,
        ..Search::default()
    };
    assert!(matches!(
        named.load(),
        Err(LibraryError::Unusable {
            origin: Origin::Flag,
            ..
        })
    ));
}
