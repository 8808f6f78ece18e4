//! Raw PCM from a pipe, whose meaning only the command line knows.
#![allow(clippy::unwrap_used)] // A test, helpers included.

use firstword_audio::raw::{Raw, Sample};
use firstword_audio::{Error, Format, Source};

fn hear(sample: &str, channels: u16, bytes: &'static [u8]) -> (Vec<f32>, Vec<String>) {
    let format = Format {
        sample_rate: 16_000,
        channels,
    };
    let mut raw = Raw::new(bytes, sample.parse().unwrap(), format).unwrap();
    let mut out = Vec::new();
    while raw.read(&mut out, 3).unwrap() > 0 {}
    (out, raw.damage())
}

#[test]
fn every_raw_format_has_its_full_scale() {
    // −1 and ½ in each.
    for (name, bytes) in [
        ("u8", &[0, 192][..]),
        ("s16le", &[0x00, 0x80, 0x00, 0x40]),
        ("s16be", &[0x80, 0x00, 0x40, 0x00]),
        ("s24le", &[0, 0, 0x80, 0, 0, 0x40]),
        ("s32le", &[0, 0, 0, 0x80, 0, 0, 0, 0x40]),
        ("f32le", &[0, 0, 0x80, 0xBF, 0, 0, 0, 0x3F]),
    ] {
        assert_eq!(hear(name, 1, bytes), (vec![-1.0, 0.5], vec![]), "{name}");
    }
}

#[test]
fn odd_bytes_at_the_end_are_left_out_and_noted() {
    let (samples, damage) = hear("s16le", 2, &[0, 0x40, 0, 0xC0, 0, 0x40, 7]);
    assert_eq!(samples, [0.5, -0.5]);
    assert_eq!(damage, ["ends within a frame: 3 odd bytes left out"]);
    let (_, damage) = hear("s16le", 1, &[0, 0x40, 7]);
    assert_eq!(damage, ["ends within a frame: 1 odd byte left out"]);
}

#[test]
fn floats_that_are_no_numbers_become_silence() {
    let (samples, damage) = hear("f32le", 1, &[0, 0, 0xC0, 0x7F, 0, 0, 0, 0x3F]);
    assert_eq!(samples, [0.0, 0.5]);
    assert_eq!(
        damage,
        ["1 sample is NaN or infinite, at 0.000 s; replaced by silence"]
    );
    // 2¹²⁷ is a number, but no sound; sums of such would overflow later.
    let (samples, damage) = hear("f32le", 1, &[0, 0, 0, 0x7F]);
    assert_eq!(samples, [0.0]);
    assert!(damage[0].contains("absurdly large"), "{damage:?}");
}

#[test]
fn nothing_is_said_so() {
    let mut raw = Raw::new(
        &[][..],
        Sample::S16Le,
        Format {
            sample_rate: 16_000,
            channels: 1,
        },
    )
    .unwrap();
    assert!(matches!(
        raw.read(&mut Vec::new(), 10),
        Err(Error::NoSamples)
    ));
}

#[test]
fn an_unknown_format_names_the_known_ones() {
    let message = "s16".parse::<Sample>().unwrap_err().to_string();
    assert_eq!(
        message,
        "raw format 's16' is not known: expected s16le, s16be, s24le, s32le, f32le or u8"
    );
    assert!("S16LE".parse::<Sample>().is_ok());
    for sample in Sample::ALL {
        assert_eq!(sample.name().parse::<Sample>().unwrap(), sample);
    }
}
