//! Is this file a shared library for this machine? Asked before the file is opened as one.
//!
//! `dlopen` answers in its own words ("invalid ELF header"), and a library that was cut short does
//! not fail at all: it is mapped, and the process dies with SIGBUS on the first page that is not
//! there. So the ELF header and the program headers are read here first. Layout: System V ABI,
//! chapter "Object Files" (ELF-64; the first 20 bytes are the same in ELF-32).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// ELF's number for the machine this program was built for (`e_machine`).
const HERE: u16 = if cfg!(target_arch = "x86_64") {
    62
} else if cfg!(target_arch = "aarch64") {
    183
} else if cfg!(target_arch = "riscv64") {
    243
} else {
    0
};

const HEADER_BYTES: usize = 64;
const PROGRAM_HEADER_BYTES: usize = 56;
const SHARED_OBJECT: u16 = 3; // ET_DYN
const LOAD: u32 = 1; // PT_LOAD

/// Why a file is no shared library for this machine.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// The file could not be read.
    #[error("can't be read ({0})")]
    Unreadable(#[from] io::Error),
    /// Another kind of file; what it is, as far as that shows.
    #[error("is not a shared library ({0})")]
    NotALibrary(&'static str),
    /// The file ends before what its headers promise.
    #[error("is cut short: its headers speak of {promised} bytes, the file has {found}")]
    CutShort {
        /// Bytes the headers need.
        promised: u64,
        /// Bytes in the file.
        found: u64,
    },
    /// Built for 32-bit programs.
    #[error("is a 32-bit library, this program is 64-bit")]
    Bits32,
    /// Built for another processor.
    #[error("is built for {found}, this machine is {}", machine(HERE))]
    OtherMachine {
        /// The processor the file names.
        found: String,
    },
}

/// Reads the headers of `file` and says whether this process could map it as a library.
pub fn check(file: &mut File) -> Result<(), Unfit> {
    let length = file.metadata()?.len();
    let mut header = [0_u8; HEADER_BYTES];
    let filled = read_up_to(file, &mut header)?;
    let seen = &header[..filled];
    if !seen.starts_with(b"\x7fELF") {
        return Err(Unfit::NotALibrary(what_else(seen)));
    }
    if filled < HEADER_BYTES {
        return Err(Unfit::CutShort {
            promised: HEADER_BYTES as u64,
            found: length,
        });
    }
    if header[5] != 1 {
        return Err(Unfit::OtherMachine {
            found: "a big-endian machine".to_owned(),
        });
    }
    let machine_number = u16_at(&header, 18);
    if header[4] == 1 {
        return Err(Unfit::Bits32);
    }
    if machine_number != HERE {
        return Err(Unfit::OtherMachine {
            found: machine(machine_number),
        });
    }
    if u16_at(&header, 16) != SHARED_OBJECT {
        return Err(Unfit::NotALibrary(
            "an ELF file of another kind: an object file or a program",
        ));
    }
    check_segments(file, &header, length)
}

/// Every part that is to be mapped must lie within the file.
fn check_segments(file: &mut File, header: &[u8], length: u64) -> Result<(), Unfit> {
    let offset = u64_at(header, 32);
    let size = u16_at(header, 54);
    let count = u16_at(header, 56);
    if usize::from(size) != PROGRAM_HEADER_BYTES || count == 0 {
        return Err(Unfit::NotALibrary("an ELF file with nothing to load"));
    }
    let table_end = offset.saturating_add(u64::from(size) * u64::from(count));
    if table_end > length {
        return Err(Unfit::CutShort {
            promised: table_end,
            found: length,
        });
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut entry = [0_u8; PROGRAM_HEADER_BYTES];
    for _ in 0..count {
        file.read_exact(&mut entry)?;
        let end = u64_at(&entry, 8).saturating_add(u64_at(&entry, 32));
        if u32_at(&entry, 0) == LOAD && end > length {
            return Err(Unfit::CutShort {
                promised: end,
                found: length,
            });
        }
    }
    Ok(())
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// What a file that is not ELF most likely is: the mistakes people make when they set a path.
fn what_else(seen: &[u8]) -> &'static str {
    match seen {
        [] => "an empty file",
        [b'P', b'K', 3, 4, ..] => "a zip archive or wheel: the library is inside it",
        [0x1f, 0x8b, ..] => "a gzip archive: the library is inside it",
        [b'M', b'Z', ..] => "a Windows DLL",
        [0xcf, 0xfa, 0xed, 0xfe, ..] | [0xca, 0xfe, 0xba, 0xbe, ..] => "a macOS library",
        _ if seen
            .iter()
            .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()) =>
        {
            "a text file"
        }
        _ => "unknown contents",
    }
}

fn machine(number: u16) -> String {
    match number {
        3 => "x86 (32-bit)".to_owned(),
        40 => "arm (32-bit)".to_owned(),
        62 => "x86-64".to_owned(),
        183 => "aarch64".to_owned(),
        243 => "riscv".to_owned(),
        other => format!("another machine (ELF number {other})"),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
