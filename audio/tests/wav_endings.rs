//! WAV files that end too early, hold nothing, or are still being written.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod wav_zoo;

use std::io::{self, Read};

use firstword_audio::Source;
use firstword_audio::wav::Wav;
use wav_zoo::*;

// ── Files that end too early, or hold nothing ────────────────────────────────────────────────────

#[test]
fn nothing_to_hear_is_said_so() {
    let silent = "holds no samples: there is not one whole frame of sound";
    let fmt = chunk(b"fmt ", &plain());
    assert_eq!(refusal(&wav(&plain(), &[])), silent);
    assert_eq!(refusal(&riff(std::slice::from_ref(&fmt))), silent);
    assert_eq!(
        refusal(&riff(&[fmt.clone(), chunk_claiming(b"data", 1_000, &[])])),
        silent
    );
    assert_eq!(
        refusal(&riff(&[
            fmt.clone(),
            chunk_claiming(b"data", 0xFFFF_FFFF, &[])
        ])),
        silent
    );
    assert_eq!(
        refusal(&riff(&[fmt.clone(), chunk_claiming(b"data", 2, &[1])])),
        silent
    );
    // An empty data chunk in front of another chunk is empty, not endless.
    assert_eq!(
        refusal(&riff(&[
            fmt,
            chunk(b"data", &[]),
            chunk(b"LIST", b"INFOabcd")
        ])),
        silent
    );
    assert_eq!(
        refusal(&[]),
        "is empty (0 bytes); expected WAV, FLAC, MP3, Ogg/Vorbis or M4A"
    );
}

#[test]
fn every_way_to_cut_a_header_short_is_an_error_and_every_cut_in_the_sound_is_not() {
    let bytes = wav(&plain(), &s16(&[16_384; 20]));
    for cut in 0..bytes.len() {
        let heard = hear(&bytes[..cut]);
        // 12 + 8 + 16 + 8 = 44 bytes of header, and two for the first sample.
        if cut < 46 {
            assert!(heard.is_err(), "cut at {cut}");
        } else {
            assert_eq!(heard.unwrap().samples.len(), (cut - 44) / 2, "cut at {cut}");
        }
    }
}

#[test]
fn one_sample_is_sound() {
    assert_eq!(hear_well(&wav(&plain(), &s16(&[16_384]))).samples, [0.5]);
}

#[test]
fn a_file_shorter_than_its_header_promises_is_heard_and_noted() {
    // 80000 frames at 8 kHz are ten seconds; 58504 are 7.313.
    let bytes = riff(&[
        chunk(b"fmt ", &plain()),
        chunk_claiming(b"data", 160_000, &vec![0; 2 * 58_504]),
    ]);
    let heard = hear(&bytes).unwrap();
    assert_eq!(heard.samples.len(), 58_504);
    assert_eq!(
        heard.damage,
        ["the header promises 10.000 s, the file ends after 7.313 s"]
    );
}

#[test]
fn a_cut_frame_is_left_out_and_noted() {
    let fmt = fmt_body(1, 2, 8_000, 16);
    let data = &s16(&[16_384; 20])[..39];
    let heard = hear(&riff(&[
        chunk(b"fmt ", &fmt),
        chunk_claiming(b"data", 39, data),
    ]))
    .unwrap();
    assert_eq!(heard.samples, [0.5; 18]);
    assert_eq!(heard.damage, ["ends within a frame: 3 odd bytes left out"]);
    let endless = riff(&[chunk(b"fmt ", &fmt), chunk_claiming(b"data", 0, data)]);
    assert_eq!(
        hear(&endless).unwrap().damage,
        ["ends within a frame: 3 odd bytes left out"]
    );
}

#[test]
fn sound_beyond_the_promised_end_of_a_file_is_noted() {
    let bytes = riff(&[
        chunk(b"fmt ", &plain()),
        chunk_claiming(b"data", 8_000, &s16(&[-16_384; 8_000])),
    ]);
    let mut file = Wav::with_length(&bytes[..], Some(bytes.len() as u64)).unwrap();
    let mut out = Vec::new();
    while file.read(&mut out, 777).unwrap() > 0 {}
    assert_eq!(out.len(), 4_000);
    assert_eq!(
        file.damage(),
        ["the header promises 0.500 s, but more bytes follow; what follows is left out"]
    );
}

#[test]
fn samples_that_are_no_numbers_become_silence_and_are_counted() {
    let mut values = vec![0.5_f32; 8_000];
    for i in 0..14 {
        values[2_496 + 100 * i] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][i % 3];
    }
    let data: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let heard = hear(&wav(&fmt_body(3, 1, 8_000, 32), &data)).unwrap();
    assert_eq!(heard.samples.iter().filter(|s| **s == 0.0).count(), 14);
    assert!(heard.samples.iter().all(|s| *s == 0.0 || *s == 0.5));
    // 2496 / 8000 s.
    assert_eq!(
        heard.damage,
        ["14 samples are NaN or infinite, the first at 0.312 s; replaced by silence"]
    );
    let heard = hear(&wav(&fmt_body(3, 1, 8_000, 64), &f64::MAX.to_le_bytes())).unwrap();
    assert_eq!(
        heard.damage,
        ["1 sample is NaN or infinite, at 0.000 s; replaced by silence"]
    );
}

#[test]
fn what_is_no_wav_is_refused_with_what_was_found() {
    assert_eq!(
        refusal(b"RIFF\x10\0\0\0AVI LIST"),
        "has a damaged WAV header: expected a RIFF of kind WAVE, found kind \"AVI \""
    );
    assert_eq!(
        refusal(b"RIFF\0\0"),
        "has a damaged WAV header: expected 12 bytes of RIFF header, found 6"
    );
    assert_eq!(
        refusal(&riff(&[chunk(b"data", &[0; 10])])),
        "has a damaged WAV header: the data chunk comes before any fmt chunk"
    );
    assert_eq!(
        refusal(&riff(&[chunk(b"LIST", &[0; 10])])),
        "has a damaged WAV header: it ends before a fmt chunk"
    );
    assert_eq!(
        refusal(&riff(&[chunk(b"fmt ", &[0; 10]), chunk(b"data", &[0; 10])])),
        "has a damaged WAV header: the fmt chunk has 10 bytes, expected 16 or more"
    );
}

// ── A live pipe ──────────────────────────────────────────────────────────────────────────────────

/// Hands out its pieces one per read, and fails the test if read once more: a read beyond what is
/// there would block.
struct Live(Vec<Vec<u8>>);

impl Read for Live {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        assert!(
            !self.0.is_empty(),
            "read although what was asked for had arrived"
        );
        let n = self.0[0].len().min(buffer.len());
        buffer[..n].copy_from_slice(&self.0[0][..n]);
        self.0[0].drain(..n);
        if self.0[0].is_empty() {
            self.0.remove(0);
        }
        Ok(n)
    }
}

#[test]
fn a_live_pipe_is_heard_as_it_arrives() {
    let header = riff(&[
        chunk(b"fmt ", &plain()),
        chunk_claiming(b"data", 0x7FFF_F024, &[]),
    ]);
    let mut wav = Wav::new(Live(vec![header, s16(&[16_384; 80]), s16(&[-16_384; 40])])).unwrap();
    let mut out = Vec::new();
    assert_eq!(wav.read(&mut out, 16_000).unwrap(), 80);
    assert_eq!(wav.read(&mut out, 16_000).unwrap(), 40);
    assert_eq!(out[..80], [0.5; 80]);
    assert_eq!(out[80..], [-0.5; 40]);
}

#[test]
fn an_interrupted_read_is_tried_again_and_a_failing_one_is_reported() {
    struct Shaky<'a>(&'a [u8], u32);
    impl Read for Shaky<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 += 1;
            if self.1 % 2 == 1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if self.0.is_empty() {
                return Err(io::Error::other("the disk is gone"));
            }
            self.0.read(buffer)
        }
    }
    let bytes = riff(&[
        chunk(b"fmt ", &plain()),
        chunk_claiming(b"data", 1_000, &s16(&[16_384; 100])),
    ]);
    let mut wav = Wav::new(Shaky(&bytes, 0)).unwrap();
    let mut out = Vec::new();
    assert_eq!(wav.read(&mut out, 1_000).unwrap(), 100);
    assert_eq!(
        wav.read(&mut out, 1_000).unwrap_err().to_string(),
        "cannot be read: the disk is gone"
    );
}
