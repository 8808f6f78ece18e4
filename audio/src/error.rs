//! Every way in which sound can fail to arrive, each as one line for a person: what was expected,
//! what was found, what to do. The file's name is added by the caller, who knows it.

use std::io;

/// Why a source cannot be opened or read further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing at this path.
    #[error("no such file; check the path")]
    NotFound,
    /// The path names a directory.
    #[error("is a directory; name a sound file in it")]
    Directory,
    /// The permissions forbid reading.
    #[error("permission denied; make it readable for this user")]
    Permission,
    /// Zero bytes.
    #[error("is empty (0 bytes); expected WAV, FLAC, MP3, Ogg/Vorbis or M4A")]
    Empty,
    /// A header, but not one whole frame of sound.
    #[error("holds no samples: there is not one whole frame of sound")]
    NoSamples,
    /// The operating system refused to read on.
    #[error("cannot be read: {}", in_words(.0))]
    Io(io::Error),
    /// The content is none of the formats known here.
    #[error(
        "is no sound file: expected WAV, FLAC, MP3, Ogg/Vorbis or M4A; the file begins with {begins}"
    )]
    Unknown {
        /// The first bytes, as text where they are text, else in hexadecimal.
        begins: String,
    },
    /// A container whose header contradicts itself or stops too early.
    #[error("has a damaged {container} header: {reason}")]
    Header {
        /// The container's name.
        container: &'static str,
        /// What was expected and what was found.
        reason: String,
    },
    /// A codec or sample type that this crate does not decode.
    #[error(
        "holds {what}, which is not supported; convert it, for example: ffmpeg -i FILE out.wav"
    )]
    Unsupported {
        /// The codec's or the sample type's name.
        what: String,
    },
    /// A container (a video, say) in which no track is sound.
    #[error("has no audio track")]
    NoAudioTrack,
    /// A container that can be read from a file but not from a pipe.
    #[error("{container} cannot be read from a pipe ({reason}); give the file's path instead")]
    NeedsFile {
        /// The container's name.
        container: &'static str,
        /// What the decoder said.
        reason: String,
    },
    /// A sample rate outside 1 kHz … 768 kHz.
    #[error("sample rate {0} Hz: expected 1000 to 768000 Hz")]
    Rate(u32),
    /// A channel count outside 1 … 64.
    #[error("channel count {0}: expected 1 to 64 channels")]
    ChannelCount(u32),
    /// A channel was picked that the source does not have.
    #[error("channel {wanted} does not exist: the source has {available} (numbered from 1)")]
    NoSuchChannel {
        /// The channel asked for, from 1.
        wanted: u16,
        /// How many the source has.
        available: u16,
    },
    /// A raw sample type that is not known.
    #[error("raw format '{0}' is not known: expected s16le, s16be, s24le, s32le, f32le or u8")]
    RawFormat(String),
    /// The resampler refused; no sound is handed on un-resampled.
    #[error("resampling from {rate} Hz to 16000 Hz failed: {reason}")]
    Resample {
        /// The source's rate in hertz.
        rate: u32,
        /// What the resampler said.
        reason: String,
    },
    /// `push` or `finish` was called after `finish`.
    #[error(
        "sound was pushed into a conditioner that had been finished; this is a bug in the caller"
    )]
    Finished,
}

/// What the system says, without the number that only programmers know.
fn in_words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::PermissionDenied => Self::Permission,
            io::ErrorKind::IsADirectory => Self::Directory,
            _ => Self::Io(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_becomes_what_the_user_can_do() {
        let said = |kind: io::ErrorKind| Error::from(io::Error::from(kind)).to_string();
        assert_eq!(
            said(io::ErrorKind::PermissionDenied),
            "permission denied; make it readable for this user"
        );
        assert_eq!(
            said(io::ErrorKind::NotFound),
            "no such file; check the path"
        );
        assert_eq!(
            said(io::ErrorKind::IsADirectory),
            "is a directory; name a sound file in it"
        );
        // 5 is EIO on Linux.
        let broken = Error::from(io::Error::from_raw_os_error(5)).to_string();
        assert_eq!(broken, "cannot be read: Input/output error");
        assert!(said(io::ErrorKind::ConnectionReset).starts_with("cannot be read: "));
    }
}
