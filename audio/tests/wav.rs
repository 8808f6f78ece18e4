//! The zoo of WAV files that recorders, editors and pipes leave behind: what their samples are, and
//! headers that lie about it. Expected samples are arithmetic. Names in comments are the public reports
//! that a test guards against.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod wav_zoo;

use firstword_audio::Format;
use wav_zoo::*;

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
