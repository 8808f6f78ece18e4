//! Built graphs in a file: one line that says what they are, then both graphs.
//!
//! ```text
//! firstword moonshine-lean VERSION SOURCE CROSS-BYTES STEP-BYTES SHA-256-OF-BOTH
//! ```
//!
//! SOURCE is the stamp of the shipped file they were built from (length, both times, inode,
//! device), hashed. A file whose line or hash is not as it must be is built anew and replaced. There is one file
//! for each shipped file's path, so nothing piles up.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use super::Graphs;

/// Raised with every change of the graphs that are built.
const VERSION: u32 = 1;

/// Longest first line, in bytes.
const LONGEST_LINE: usize = 256;

/// Where the graphs of one shipped file are kept.
pub struct Place {
    folder: PathBuf,
    name: String,
    /// How the first line begins.
    known_by: String,
    /// Whether the shipped file is long enough unchanged for its times to tell the next change.
    settled: bool,
}

impl Place {
    /// `None` if the shipped file can't be looked at.
    pub fn of(shipped: &Path, folder: &Path) -> Option<Self> {
        let path = shipped.canonicalize().ok()?;
        let metadata = path.metadata().ok()?;
        let stamp = format!(
            "{} {} {} {} {} {} {}",
            metadata.len(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
            metadata.ino(),
            metadata.dev()
        );
        let source = hexadecimal(&[stamp.as_bytes()]);
        let name = hexadecimal(&[path.as_os_str().as_encoded_bytes()]);
        // File times move in steps of up to two seconds (FAT).
        let settled = SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_secs(metadata.ctime().max(0) as u64 + 3))
            .is_some_and(|then| then < SystemTime::now());
        Some(Self {
            folder: folder.to_owned(),
            name: format!("moonshine-{}.lean", &name[..16]),
            known_by: format!("firstword moonshine-lean {VERSION} {} ", &source[..32]),
            settled,
        })
    }

    /// The graphs, if they are there and whole.
    pub fn read(&self) -> Option<Graphs> {
        let bytes = fs::read(self.folder.join(&self.name)).ok()?;
        let line = bytes[..bytes.len().min(LONGEST_LINE)]
            .split(|&byte| byte == b'\n')
            .next()?;
        let rest = str::from_utf8(line).ok()?.strip_prefix(&self.known_by)?;
        let mut words = rest.split(' ');
        let mut length = || words.next()?.parse::<usize>().ok();
        let (cross, step) = (length()?, length()?);
        let (_, body) = bytes.split_at_checked(line.len() + 1)?;
        if body.len() != cross.checked_add(step)? || words.next()? != hexadecimal(&[body]) {
            return None;
        }
        let (cross, step) = body.split_at(cross);
        Some(Graphs {
            cross: cross.to_owned(),
            step: step.to_owned(),
        })
    }

    /// Writes the graphs in one step: a reader sees the old file or this one.
    pub fn write(&self, graphs: &Graphs) -> io::Result<()> {
        if !self.settled {
            return Ok(());
        }
        fs::create_dir_all(&self.folder)?;
        let mut file = tempfile::Builder::new()
            .prefix(".building")
            .permissions(fs::Permissions::from_mode(0o644))
            .tempfile_in(&self.folder)?;
        let (cross, step) = (&graphs.cross, &graphs.step);
        let hash = hexadecimal(&[cross, step]);
        writeln!(
            file,
            "{}{} {} {hash}",
            self.known_by,
            cross.len(),
            step.len()
        )?;
        file.write_all(cross)?;
        file.write_all(step)?;
        file.as_file().sync_all()?;
        file.persist(self.folder.join(&self.name))
            .map_err(|error| error.error)?;
        File::open(&self.folder)?.sync_all()
    }
}

/// SHA-256 of these bytes, one part after another.
fn hexadecimal(parts: &[&[u8]]) -> String {
    use std::fmt::Write as _;
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize()
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
