//! Whatever bytes claim to be a WAV: reading them ends, never panics, and never takes memory that the
//! bytes themselves do not justify.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod counting;

use std::io::Read;

use firstword_audio::raw::{Raw, Sample};
use firstword_audio::wav::Wav;
use firstword_audio::{Format, Source};
use proptest::prelude::*;

/// The reader's own buffer is 64 KiB; the samples of a read are at most 64 Ki of 4 bytes, in a vector
/// that may double. Nothing in a header may make it more.
const MOST: usize = 1024 * 1024;

/// Reads to the end; returns the number of samples.
fn exhaust(mut source: impl Source) -> usize {
    let channels = usize::from(source.format().channels);
    let (mut out, mut samples) = (Vec::new(), 0);
    while let Ok(frames) = source.read(&mut out, 5_000) {
        assert_eq!(out.len(), frames * channels);
        assert!(out.iter().all(|s| s.is_finite()));
        if frames == 0 {
            break;
        }
        samples += out.len();
        out.clear();
    }
    source.damage();
    samples
}

fn read(bytes: &[u8], length: Option<u64>) -> usize {
    let (samples, largest) =
        counting::largest_during(|| Wav::with_length(bytes, length).map_or(0, exhaust));
    assert!(largest <= MOST, "one allocation of {largest} bytes");
    // No sample is smaller than a byte.
    assert!(samples <= bytes.len());
    samples
}

/// A valid file with every kind of chunk that the reader looks at, to be damaged.
fn valid() -> Vec<u8> {
    let mut out = b"RF64\xFF\xFF\xFF\xFFWAVEds64\x1C\0\0\0".to_vec();
    out.extend([0; 8]);
    out.extend(200_u64.to_le_bytes());
    out.extend([0; 12]);
    out.extend(b"LIST\x05\0\0\0INFO!\0fmt \x28\0\0\0\xFE\xFF\x02\0\x80\xBB\0\0\0\xEE\x02\0\x04\0\x10\0\x16\0\x10\0\x03\0\0\0");
    out.extend(b"\x01\0\0\0\0\0\x10\0\x80\0\0\xAA\0\x38\x9B\x71data\xFF\xFF\xFF\xFF");
    out.extend((0..200).map(|i| i as u8));
    out
}

#[test]
fn the_file_that_is_damaged_below_is_whole() {
    assert_eq!(read(&valid(), None), 100);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn arbitrary_bytes_end_quietly(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        read(&bytes, None);
        read(&bytes, Some(bytes.len() as u64));
    }

    #[test]
    fn arbitrary_bytes_behind_a_riff_header_end_quietly(
        chunks in prop::collection::vec((prop::sample::select(vec![*b"fmt ", *b"data", *b"ds64", *b"LIST", *b"abcd"]),
            prop_oneof![any::<u32>(), 0..64_u32], prop::collection::vec(any::<u8>(), 0..64)), 0..6)
    ) {
        let mut bytes = b"RIFF\0\0\0\0WAVE".to_vec();
        for (id, size, body) in chunks {
            bytes.extend(id);
            bytes.extend(size.to_le_bytes());
            bytes.extend(body);
        }
        read(&bytes, None);
        read(&bytes, Some(bytes.len() as u64));
    }

    #[test]
    fn damaged_headers_end_quietly(
        damage in prop::collection::vec((0..320_usize, any::<u8>()), 1..8),
        cut in 0..330_usize,
        length in prop_oneof![Just(None), any::<u64>().prop_map(Some)],
    ) {
        let mut bytes = valid();
        for (at, value) in damage {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(cut);
        read(&bytes, length);
    }

    #[test]
    fn raw_bytes_of_any_number_are_whole_frames_and_a_note(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        kind in 0..6_usize,
        channels in 1..=64_u16,
    ) {
        let size = [2, 2, 3, 4, 4, 1][kind] * usize::from(channels);
        let format = Format { sample_rate: 8_000, channels };
        let mut raw = Raw::new(&bytes[..], Sample::ALL[kind], format).unwrap();
        let mut out = Vec::new();
        let mut frames = 0;
        while let Ok(n @ 1..) = raw.read(&mut out, 7) {
            frames += n;
        }
        prop_assert_eq!(frames, bytes.len() / size);
        let odd = raw.damage().iter().any(|d| d.starts_with("ends within a frame"));
        prop_assert_eq!(odd, !bytes.len().is_multiple_of(size));
    }
}

#[test]
fn a_chunk_that_claims_four_gigabytes_takes_no_memory() {
    for id in [b"LIST", b"fmt ", b"ds64"] {
        let head = [b"RIFF\0\0\0\0WAVE", &id[..], &[0xFF; 4], &[1; 100]].concat();
        // A pipe that goes on for a while, as such a chunk would make it.
        let pipe = (&head[..]).chain(std::io::repeat(0).take(10_000_000));
        let (_, largest) = counting::largest_during(|| Wav::new(pipe).map(exhaust).is_ok());
        assert!(largest <= MOST, "{largest}");
    }
}
