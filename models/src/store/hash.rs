//! SHA-256 of files, read once from front to back.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

/// Opens a plain file for reading; anything else (a folder, a pipe) is an error.
pub fn open(path: &Path) -> io::Result<File> {
    // Asked before opening: opening a pipe would wait for its writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a plain file",
        ));
    }
    File::open(path)
}

/// The hash of a whole file, in hexadecimal; `progress` is told the bytes done so far.
pub fn of_file(mut file: &File, progress: &mut dyn FnMut(u64)) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut done = 0;
    loop {
        let read = match file.read(&mut buffer) {
            Ok(0) => return Ok(in_hexadecimal(hash)),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hash.update(&buffer[..read]);
        done += read as u64;
        progress(done);
    }
}

/// Ends a hash and writes it in hexadecimal.
pub fn in_hexadecimal(hash: Sha256) -> String {
    hash.finalize()
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_abc_is_that_of_the_standard() {
        // FIPS 180-2, appendix B.1.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let mut done = 0;
        let found = of_file(&open(&path).unwrap(), &mut |bytes| done = bytes).unwrap();
        assert_eq!(
            found,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(done, 3);
        assert!(open(folder.path()).is_err(), "a folder is no file");
    }
}
