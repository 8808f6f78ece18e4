//! What a listener would notice after resampling: words at the wrong time, a lost beginning or end, a
//! dull or whistling sound. Expected values are arithmetic: sines and impulses are known in advance.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod counting;

use std::f64::consts::TAU;

use firstword_audio::{Channels, Conditioner, Format};

/// The rates of the zoo, and some that have no common block with 16 kHz (44 056 Hz was video's).
const USUAL: [u32; 8] = [
    8_000, 11_025, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000,
];
const ODD: [u32; 8] = [1_000, 5_512, 7_999, 12_000, 16_001, 44_056, 47_999, 384_000];

fn every_rate() -> impl Iterator<Item = u32> {
    USUAL.into_iter().chain(ODD)
}

fn mono(sample_rate: u32) -> Format {
    Format {
        sample_rate,
        channels: 1,
    }
}

/// All of the input in pieces of `piece` samples, then the end.
fn resample_in(rate: u32, input: &[f32], piece: usize) -> Vec<f32> {
    let mut c = Conditioner::new(mono(rate), Channels::Mix).unwrap();
    let mut out = Vec::new();
    for part in input.chunks(piece) {
        out.extend_from_slice(c.push(part).unwrap());
    }
    out.extend_from_slice(c.finish().unwrap());
    assert_eq!(c.delay().0, 0);
    out
}

fn resample(rate: u32, input: &[f32]) -> Vec<f32> {
    resample_in(rate, input, input.len().max(1))
}

fn sine(rate: u32, hertz: f64, seconds: f64) -> Vec<f32> {
    let n = (seconds * f64::from(rate)).round() as usize;
    (0..n)
        .map(|i| (TAU * hertz * i as f64 / f64::from(rate)).sin() as f32 * 0.5)
        .collect()
}

/// Amplitude and phase (radians, of a sine that starts at the first sample) of one frequency in 16 kHz samples that start at sample
/// `first` of the stream. `samples` should hold whole periods.
fn tone(samples: &[f32], first: usize, hertz: f64) -> (f64, f64) {
    let (mut s, mut c) = (0.0, 0.0);
    for (i, x) in samples.iter().enumerate() {
        let angle = TAU * hertz * (first + i) as f64 / 16_000.0;
        s += f64::from(*x) * angle.sin();
        c += f64::from(*x) * angle.cos();
    }
    let scale = 2.0 / samples.len() as f64;
    ((s * s + c * c).sqrt() * scale, c.atan2(s))
}

fn rms(samples: &[f32]) -> f64 {
    (samples.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / samples.len() as f64).sqrt()
}

#[test]
fn clicks_keep_their_times_within_one_sample_from_the_first_to_the_last() {
    for rate in every_rate().filter(|r| *r >= 7_999) {
        // One click every 100 ms or so, the first at the very start, the last at the very end.
        let n = rate as usize * 2;
        let clicks: Vec<usize> = (0..20).map(|k| k * (n - 1) / 19).collect();
        let mut input = vec![0.0; n];
        for &at in &clicks {
            input[at] = 1.0;
        }
        let out = resample(rate, &input);
        for &at in &clicks {
            let expected = at as f64 * 16_000.0 / f64::from(rate);
            let from = (expected as usize).saturating_sub(400);
            let window = &out[from..(expected as usize + 400).min(out.len())];
            let peak =
                (0..window.len()).max_by(|a, b| window[*a].abs().total_cmp(&window[*b].abs()));
            let found = (from + peak.unwrap()) as f64;
            assert!(
                (found - expected).abs() <= 1.0,
                "{rate} Hz: click at {expected}, found at {found}"
            );
        }
    }
}

#[test]
fn the_length_is_exact_for_any_length_and_rate() {
    for rate in every_rate().chain([16_000]) {
        let r = rate as usize;
        // None, one, a few, 99 ms, a second and one more.
        for n in [0, 1, 2, 3, 7, r / 100, r * 99 / 1_000, r, r + 1] {
            let input = vec![0.25; n];
            // Halves up, in integers: (2 · n · 16000 + rate) / (2 · rate).
            let expected = (2 * n * 16_000 + r) / (2 * r);
            for piece in [n.max(1), 1_000] {
                let out = resample_in(rate, &input, piece);
                assert_eq!(
                    out.len(),
                    expected,
                    "{n} frames at {rate} Hz in pieces of {piece}"
                );
            }
        }
    }
}

#[test]
fn a_steady_level_stays_until_the_last_sample() {
    for rate in every_rate().filter(|r| *r >= 7_999) {
        let out = resample(rate, &vec![0.5; rate as usize]);
        // In the middle nothing changes; the edges ring as every band-limited step does, but the sound
        // is there up to both ends.
        for (i, x) in out.iter().enumerate() {
            let is_edge = i < 400 || i + 400 >= out.len();
            let error = (x - 0.5).abs();
            assert!(
                error < if is_edge { 0.3 } else { 1e-3 },
                "{rate} Hz: {x} at {i} of {}",
                out.len()
            );
        }
    }
}

#[test]
fn a_tone_keeps_its_amplitude_frequency_and_phase() {
    for rate in every_rate().filter(|r| *r >= 7_999) {
        for hertz in [100.0, 1_000.0, 3_000.0, 7_500.0] {
            if hertz > 0.94 * f64::from(rate) / 2.0 {
                continue;
            }
            let out = resample(rate, &sine(rate, hertz, 1.0));
            let (amplitude, phase) = tone(&out[4_000..12_000], 4_000, hertz);
            let decibels = 20.0 * (amplitude / 0.5).log10();
            assert!(
                decibels.abs() < 0.1,
                "{rate} Hz: {hertz} Hz changed by {decibels:.3} dB"
            );
            // One sample of delay would be this many radians.
            let sample = TAU * hertz / 16_000.0;
            assert!(
                phase.abs() < sample,
                "{rate} Hz: {hertz} Hz shifted by {:.3} samples",
                phase / sample
            );
            // What is not the tone is noise: the frequency is right and nothing else was added.
            let mut rest = Vec::new();
            for (i, x) in out[4_000..12_000].iter().enumerate() {
                let angle = TAU * hertz * (4_000 + i) as f64 / 16_000.0 + phase;
                rest.push(x - (amplitude * angle.sin()) as f32);
            }
            let noise = 20.0 * (rms(&rest) / rms(&out[4_000..12_000])).log10();
            assert!(
                noise < -80.0,
                "{rate} Hz: {hertz} Hz comes with noise at {noise:.1} dB"
            );
        }
    }
}

#[test]
fn what_16_khz_cannot_hold_does_not_fold_back() {
    for rate in every_rate().filter(|r| *r >= 22_050) {
        for hertz in [8_050.0, 9_000.0, 10_500.0, 15_900.0, 20_000.0] {
            if hertz >= f64::from(rate) / 2.0 {
                continue;
            }
            let out = resample(rate, &sine(rate, hertz, 1.0));
            let left = 20.0 * (rms(&out[4_000..12_000]) / (0.5 / 2.0_f64.sqrt())).log10();
            assert!(
                left < -80.0,
                "{rate} Hz: {hertz} Hz is still there at {left:.1} dB"
            );
        }
    }
}

#[test]
fn the_upper_half_of_a_wider_band_is_not_invented() {
    // 3 kHz at 8 kHz has an image at 5 kHz.
    for rate in [8_000, 7_999, 11_025, 12_000] {
        let out = resample(rate, &sine(rate, 3_000.0, 2.0));
        // A whole second, so that both frequencies have whole periods in it.
        let (image, _) = tone(&out[8_000..24_000], 8_000, f64::from(rate) - 3_000.0);
        assert!(
            20.0 * (image / 0.5).log10() < -80.0,
            "{rate} Hz: image of {image}"
        );
    }
}

#[test]
fn the_pieces_in_which_sound_arrives_do_not_matter() {
    for rate in every_rate().chain([16_000]) {
        // Noise from a linear congruence, so that every sample differs.
        let mut state = 1_u32;
        let input: Vec<f32> = (0..(rate / 2).min(20_000))
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / 8_388_608.0 - 1.0
            })
            .collect();
        let whole = resample(rate, &input);
        for piece in [1, 37, 160, 4_001] {
            assert_eq!(
                resample_in(rate, &input, piece),
                whole,
                "{rate} Hz in pieces of {piece}"
            );
        }
    }
}

#[test]
fn what_has_come_out_is_never_later_than_the_stated_delay() {
    for (rate, most) in [
        (48_000, 480),
        (44_100, 480),
        (24_000, 480),
        (8_000, 960),
        (47_999, 321),
    ] {
        let mut c = Conditioner::new(mono(rate), Channels::Mix).unwrap();
        let piece = vec![0.0; rate as usize / 100];
        let mut out = 0;
        for i in 1..=200 {
            out += c.push(&piece).unwrap().len() as u64;
            assert_eq!(c.position().0, out);
            let taken =
                (i * piece.len() as u64 * 16_000 * 2 + u64::from(rate)) / (2 * u64::from(rate));
            assert_eq!(out + c.delay().0, taken);
            assert!(
                c.delay().0 <= most,
                "{rate} Hz: {} samples inside",
                c.delay().0
            );
        }
    }
}

#[test]
fn eight_channels_are_mixed_or_picked_at_the_native_rate() {
    let format = Format {
        sample_rate: 48_000,
        channels: 8,
    };
    let left = sine(48_000, 440.0, 0.5);
    let frames: Vec<f32> = left
        .iter()
        .flat_map(|x| [*x, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -0.25])
        .collect();
    for (channels, amplitude) in [
        (Channels::Mix, 0.5 / 8.0),
        (Channels::One(1), 0.5),
        (Channels::One(2), 0.0),
        (Channels::One(8), 0.0),
    ] {
        let mut c = Conditioner::new(format, channels).unwrap();
        let mut out = c.push(&frames).unwrap().to_vec();
        out.extend_from_slice(c.finish().unwrap());
        assert_eq!(out.len(), 8_000);
        // 22 periods of 440 Hz are 800 samples.
        let (found, _) = tone(&out[2_000..6_000], 2_000, 440.0);
        assert!((found - amplitude).abs() < 1e-4, "{channels:?}: {found}");
    }
}

#[test]
fn a_live_stream_is_resampled_without_allocating() {
    for rate in every_rate().chain([16_000]) {
        let mut c = Conditioner::new(
            Format {
                sample_rate: rate,
                channels: 2,
            },
            Channels::Mix,
        )
        .unwrap();
        let piece = vec![0.1; 2 * (rate as usize / 50)];
        for _ in 0..20 {
            c.push(&piece).unwrap();
        }
        let before = counting::calls();
        for _ in 0..500 {
            std::hint::black_box(c.push(&piece).unwrap());
        }
        assert_eq!(counting::calls() - before, 0, "{rate} Hz");
    }
}

#[test]
fn rates_and_channels_beyond_reason_are_refused() {
    for (sample_rate, channels) in [(0, 1), (999, 1), (768_001, 1), (16_000, 0), (16_000, 65)] {
        assert!(
            Conditioner::new(
                Format {
                    sample_rate,
                    channels
                },
                Channels::Mix
            )
            .is_err()
        );
    }
    for sample_rate in [1_000, 768_000, 767_999] {
        assert!(Conditioner::new(mono(sample_rate), Channels::Mix).is_ok());
    }
}
