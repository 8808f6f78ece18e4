//! The zoo of WAV files that recorders, editors and pipes leave behind. Every file is laid down here
//! byte by byte from the specifications; expected samples are arithmetic. Names in brackets are the
//! public reports that a test guards against.
#![allow(clippy::unwrap_used)] // A test, helpers included.

use std::io::{self, Read};

use firstword_audio::wav::Wav;
use firstword_audio::{Error, Format, Source};

// ── Laying down bytes ────────────────────────────────────────────────────────────────────────────

fn chunk(id: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let mut out = chunk_claiming(id, body.len() as u32, body);
    if body.len() % 2 == 1 {
        out.push(0);
    }
    out
}

fn chunk_claiming(id: &[u8; 4], size: u32, body: &[u8]) -> Vec<u8> {
    [&id[..], &size.to_le_bytes(), body].concat()
}

fn riff(chunks: &[Vec<u8>]) -> Vec<u8> {
    let body = chunks.concat();
    [
        b"RIFF",
        &(body.len() as u32 + 4).to_le_bytes()[..],
        b"WAVE",
        &body,
    ]
    .concat()
}

fn fmt_body(tag: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
    let align = channels.wrapping_mul(bits.div_ceil(8));
    fmt_aligned(tag, channels, rate, align, bits)
}

fn fmt_aligned(tag: u16, channels: u16, rate: u32, align: u16, bits: u16) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(tag.to_le_bytes());
    out.extend(channels.to_le_bytes());
    out.extend(rate.to_le_bytes());
    out.extend(rate.wrapping_mul(u32::from(align)).to_le_bytes());
    out.extend(align.to_le_bytes());
    out.extend(bits.to_le_bytes());
    out
}

/// The tail of every standard sub-format identifier: xxxxxxxx-0000-0010-8000-00aa00389b71.
const GUID_TAIL: [u8; 12] = [
    0x00, 0x00, 0x10, 0x00, 0x80, 0x00, 0x00, 0xAA, 0x00, 0x38, 0x9B, 0x71,
];

fn extensible(
    tag: u16,
    channels: u16,
    rate: u32,
    container_bits: u16,
    valid_bits: u16,
    cb_size: u16,
) -> Vec<u8> {
    let mut out = fmt_body(0xFFFE, channels, rate, container_bits);
    out.extend(cb_size.to_le_bytes());
    out.extend(valid_bits.to_le_bytes());
    out.extend(3_u32.to_le_bytes());
    out.extend(u32::from(tag).to_le_bytes());
    out.extend(GUID_TAIL);
    assert_eq!(out.len(), 40);
    out
}

fn wav(fmt: &[u8], data: &[u8]) -> Vec<u8> {
    riff(&[chunk(b"fmt ", fmt), chunk(b"data", data)])
}

fn s16(values: &[i16]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// 16-bit mono at 8 kHz.
fn plain() -> Vec<u8> {
    fmt_body(1, 1, 8_000, 16)
}

// ── Reading ──────────────────────────────────────────────────────────────────────────────────────

#[derive(Debug)]
struct Heard {
    format: Format,
    samples: Vec<f32>,
    damage: Vec<String>,
}

fn drain(mut source: Wav<impl Read + Send>) -> Result<Heard, Error> {
    let mut samples = Vec::new();
    while source.read(&mut samples, 1_000)? > 0 {}
    Ok(Heard {
        format: source.format(),
        samples,
        damage: source.damage(),
    })
}

/// A pipe that hands out one byte at a time.
struct Dripping<'a>(&'a [u8]);

impl Read for Dripping<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = buffer.len().min(1);
        self.0.read(&mut buffer[..n])
    }
}

/// Reads as a file, as a pipe, and as a pipe that drips; all must hear the same.
fn hear(bytes: &[u8]) -> Result<Heard, Error> {
    let file = Wav::with_length(bytes, Some(bytes.len() as u64)).and_then(|w| {
        let frames = w.frames();
        let heard = drain(w)?;
        let there = heard.samples.len() as u64 / u64::from(heard.format.channels);
        assert_eq!(
            frames,
            Some(there),
            "the number of frames a progress bar would show"
        );
        Ok(heard)
    });
    let pipe = Wav::new(bytes).and_then(drain);
    let drip = Wav::new(Dripping(bytes)).and_then(drain);
    match (&file, &pipe, &drip) {
        (Ok(f), Ok(p), Ok(d)) => {
            assert_eq!((&f.samples, f.format), (&p.samples, p.format));
            assert_eq!(
                (&p.samples, p.format, &p.damage),
                (&d.samples, d.format, &d.damage)
            );
        }
        (Err(f), Err(p), Err(d)) => {
            assert_eq!(f.to_string(), p.to_string());
            assert_eq!(f.to_string(), d.to_string());
        }
        _ => panic!("file {file:?}, pipe {pipe:?}, dripping pipe {drip:?}"),
    }
    file
}

fn hear_well(bytes: &[u8]) -> Heard {
    let heard = hear(bytes).unwrap();
    assert_eq!(heard.damage, Vec::<String>::new());
    heard
}

fn refusal(bytes: &[u8]) -> String {
    let message = hear(bytes).unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

// ── Sample types ─────────────────────────────────────────────────────────────────────────────────

#[test]
fn every_sample_type_has_its_full_scale() {
    let cases: [(&str, Vec<u8>, Vec<u8>); 11] = [
        ("u8", fmt_body(1, 1, 8_000, 8), vec![0, 64, 128, 192]),
        ("s16", plain(), s16(&[-32_768, -16_384, 0, 16_384])),
        (
            "s24",
            fmt_body(1, 1, 8_000, 24),
            vec![0, 0, 0x80, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0x40],
        ),
        (
            "s32",
            fmt_body(1, 1, 8_000, 32),
            [i32::MIN, -(1 << 30), 0, 1 << 30]
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect(),
        ),
        (
            "f32",
            fmt_body(3, 1, 8_000, 32),
            [-1.0_f32, -0.5, 0.0, 0.5]
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect(),
        ),
        (
            "f64",
            fmt_body(3, 1, 8_000, 64),
            [-1.0_f64, -0.5, 0.0, 0.5]
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect(),
        ),
        (
            "EXTENSIBLE s16",
            extensible(1, 1, 8_000, 16, 16, 22),
            s16(&[-32_768, -16_384, 0, 16_384]),
        ),
        // camilladsp#124
        (
            "EXTENSIBLE f32",
            extensible(3, 1, 8_000, 32, 32, 22),
            [-1.0_f32, -0.5, 0.0, 0.5]
                .iter()
                .flat_map(|v| v.to_le_bytes())
                .collect(),
        ),
        // wavefile#11: 24 valid bits in 32, left-justified.
        (
            "EXTENSIBLE s24 in 32",
            extensible(1, 1, 8_000, 32, 24, 22),
            vec![0, 0, 0, 0x80, 0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0, 0x40],
        ),
        (
            "plain s24 in 32",
            fmt_aligned(1, 1, 8_000, 4, 24),
            vec![0, 0, 0, 0x80, 0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0, 0x40],
        ),
        // Symphonia#247: 40 bytes of fmt with cbSize 0.
        (
            "cbSize 0",
            extensible(1, 1, 8_000, 16, 16, 0),
            s16(&[-32_768, -16_384, 0, 16_384]),
        ),
    ];
    for (what, fmt, data) in cases {
        let heard = hear(&wav(&fmt, &data)).unwrap();
        assert_eq!(heard.samples, [-1.0, -0.5, 0.0, 0.5], "{what}");
        assert_eq!(
            heard.format,
            Format {
                sample_rate: 8_000,
                channels: 1
            },
            "{what}"
        );
        assert_eq!(heard.damage, Vec::<String>::new(), "{what}");
    }
}

#[test]
fn three_byte_samples_are_not_taken_for_four_by_a_wrong_frame_size() {
    // The byte rate (3 · 8000) tells which of the two is wrong.
    let mut fmt = fmt_aligned(1, 1, 8_000, 4, 24);
    fmt[8..12].copy_from_slice(&24_000_u32.to_le_bytes());
    let heard = hear(&wav(&fmt, &[0, 0, 0x40, 0, 0, 0xC0])).unwrap();
    assert_eq!(heard.samples, [0.5, -0.5]);
    assert_eq!(heard.damage.len(), 1);
}

#[test]
fn plain_pcm_with_a_long_fmt_chunk_is_read_by_its_tag() {
    // A tag of 1, 40 bytes of fmt, cbSize 0 (Symphonia#247).
    let mut fmt = plain();
    fmt.resize(40, 0);
    assert_eq!(hear_well(&wav(&fmt, &s16(&[8_192]))).samples, [0.25]);
    // 18 bytes, as WAVEFORMATEX has it.
    fmt.truncate(18);
    assert_eq!(hear_well(&wav(&fmt, &s16(&[8_192]))).samples, [0.25]);
}

#[test]
fn telephone_wavs_are_decoded() {
    // Values of ITU-T G.711 (tables 1a and 2a): A-law ±1 and ±4032 of 4096, mu-law ±0 and ±8031 of 8192.
    let mut a_law = fmt_body(6, 1, 8_000, 8);
    a_law.extend([0, 0]);
    let heard = hear_well(&wav(&a_law, &[0xD5, 0x55, 0xAA, 0x2A]));
    assert_eq!(
        heard.samples,
        [
            1.0 / 4_096.0,
            -1.0 / 4_096.0,
            4_032.0 / 4_096.0,
            -4_032.0 / 4_096.0
        ]
    );
    let heard = hear_well(&wav(&fmt_body(7, 1, 8_000, 8), &[0xFF, 0x80, 0x00, 0x7F]));
    assert_eq!(
        heard.samples,
        [0.0, 8_031.0 / 8_192.0, -8_031.0 / 8_192.0, 0.0]
    );
}

#[test]
fn compressed_wavs_are_refused_by_name() {
    for (tag, name) in [
        (2, "Microsoft ADPCM"),
        (0x11, "IMA ADPCM"),
        (0x31, "GSM 6.10"),
        (0x55, "MP3"),
        (0x1234, "codec 0x1234"),
    ] {
        let message = refusal(&wav(&fmt_body(tag, 1, 8_000, 4), &[0; 64]));
        assert!(message.contains(name), "{message}");
    }
    assert!(refusal(&wav(&fmt_body(1, 1, 8_000, 64), &[0; 64])).contains("64-bit integer"));
    assert!(refusal(&wav(&fmt_body(3, 1, 8_000, 16), &[0; 64])).contains("16-bit float"));
}

#[test]
fn rates_and_channels_of_the_zoo() {
    for rate in [8_000, 11_025, 22_050, 44_100, 48_000, 96_000] {
        for channels in [1, 2, 8] {
            let data: Vec<i16> = (0..channels as i16 * 3).map(|i| i * 1_024).collect();
            let heard = hear_well(&wav(&fmt_body(1, channels, rate, 16), &s16(&data)));
            assert_eq!(
                heard.format,
                Format {
                    sample_rate: rate,
                    channels
                }
            );
            assert!(
                heard
                    .samples
                    .iter()
                    .enumerate()
                    .all(|(i, s)| *s == i as f32 / 32.0)
            );
            assert_eq!(heard.samples.len(), usize::from(channels) * 3);
        }
    }
}

// ── Headers that lie ─────────────────────────────────────────────────────────────────────────────

#[test]
fn sizes_that_a_pipe_could_not_know_mean_everything_up_to_the_end() {
    // hound#39, kaldi#1567; 0x80000000 is arecord's.
    for size in [
        0,
        0xFFFF_FFFF,
        0x7FFF_F024,
        0x7FFF_F000,
        0x7FFF_FFFF,
        0x8000_0000,
        0xFFFF_FFFF - 36,
    ] {
        let bytes = riff(&[
            chunk(b"fmt ", &plain()),
            chunk_claiming(b"data", size, &s16(&[16_384; 500])),
        ]);
        assert_eq!(hear_well(&bytes).samples, [0.5; 500], "size {size:#x}");
    }
}

#[test]
fn the_riff_size_is_not_believed() {
    // Symphonia#380
    let mut bytes = wav(&plain(), &s16(&[16_384; 500]));
    for size in [0_u32, 4, 36, 50, 0x7FFF_F048, 0xFFFF_FFFF] {
        bytes[4..8].copy_from_slice(&size.to_le_bytes());
        assert_eq!(hear_well(&bytes).samples, [0.5; 500], "size {size:#x}");
    }
}

#[test]
fn rf64_and_bw64_take_their_size_from_ds64() {
    let data = s16(&[16_384; 100]);
    let mut ds64 = Vec::new();
    for v in [0_u64, 200, 100] {
        ds64.extend(v.to_le_bytes());
    }
    ds64.extend(0_u32.to_le_bytes());
    for magic in [b"RF64", b"BW64"] {
        let body = [
            chunk(b"ds64", &ds64),
            chunk(b"fmt ", &plain()),
            chunk_claiming(b"data", 0xFFFF_FFFF, &data),
            chunk(b"LIST", b"INFOabcd"),
        ]
        .concat();
        let bytes = [magic, &[0xFF; 4][..], b"WAVE", &body].concat();
        assert_eq!(hear_well(&bytes).samples, [0.5; 100]);
    }
    // From a pipe the sizes in ds64 are empty, too.
    let body = [
        chunk(b"ds64", &[0; 28]),
        chunk(b"fmt ", &plain()),
        chunk_claiming(b"data", 0xFFFF_FFFF, &data),
    ]
    .concat();
    assert_eq!(
        hear_well(&[b"RF64", &[0xFF; 4][..], b"WAVE", &body].concat()).samples,
        [0.5; 100]
    );
}

#[test]
fn chunks_before_and_after_the_sound_are_passed_over() {
    // sonic#19
    let bytes = riff(&[
        chunk(b"JUNK", &[7; 1_000]),
        chunk(b"bext", &[1; 602]),
        chunk(b"fmt ", &plain()),
        chunk(b"fact", &[0; 4]),
        chunk(b"LIST", b"INFOISFT\x05\0\0\0data\0\0"),
        chunk(b"data", &s16(&[16_384, -16_384])),
        chunk(b"LIST", b"INFO"),
        chunk(b"id3 ", &[3; 300]),
    ]);
    assert_eq!(hear_well(&bytes).samples, [0.5, -0.5]);
}

#[test]
fn an_odd_chunk_is_passed_over_with_and_without_its_pad_byte() {
    // FFmpeg#13. The pad byte is zero by the specification, and garbage in the field.
    for pad in [&[][..], &[0], &[0xCC], b"x"] {
        let odd = [chunk_claiming(b"LIST", 5, b"INFO!"), pad.to_vec()].concat();
        for odd_first in [true, false] {
            let fmt = chunk(b"fmt ", &plain());
            let front = if odd_first {
                [odd.clone(), fmt]
            } else {
                [fmt, odd.clone()]
            };
            let bytes = riff(&[front.concat(), chunk(b"data", &s16(&[16_384, -16_384]))]);
            assert_eq!(hear_well(&bytes).samples, [0.5, -0.5], "pad {pad:?}");
        }
    }
}

#[test]
fn an_odd_amount_of_sound_needs_no_pad_byte() {
    let fmt = fmt_body(1, 1, 8_000, 8);
    let padded = riff(&[
        chunk(b"fmt ", &fmt),
        chunk(b"data", &[192; 3]),
        chunk(b"LIST", b"INFO"),
    ]);
    assert_eq!(hear_well(&padded).samples, [0.5; 3]);
    let bare = riff(&[
        chunk(b"fmt ", &fmt),
        chunk_claiming(b"data", 3, &[192; 3]),
        chunk(b"LIST", b"INFO"),
    ]);
    assert_eq!(hear_well(&bare).samples, [0.5; 3]);
}

#[test]
fn a_frame_size_that_contradicts_the_bits_is_overruled_and_noted() {
    for align in [0, 1, 3, 4, 7, 8, 0xFFFF] {
        let heard = hear(&wav(
            &fmt_aligned(1, 1, 8_000, align, 16),
            &s16(&[16_384; 9]),
        ))
        .unwrap();
        assert_eq!(heard.samples, [0.5; 9], "{align}");
        assert_eq!(
            heard.damage,
            [format!(
                "the header says {align} bytes per frame, which contradicts 1 channel of 16 bits; read by the bits"
            )]
        );
    }
}

#[test]
fn channels_and_rates_beyond_reason_are_refused() {
    for channels in [0, 65, 0xFFFF] {
        assert_eq!(
            refusal(&wav(&fmt_body(1, channels, 8_000, 16), &[0; 64])),
            format!("channel count {channels}: expected 1 to 64 channels")
        );
    }
    for rate in [0, 1, 999, 768_001, u32::MAX] {
        assert_eq!(
            refusal(&wav(&fmt_body(1, 1, rate, 16), &[0; 64])),
            format!("sample rate {rate} Hz: expected 1000 to 768000 Hz")
        );
    }
}

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
