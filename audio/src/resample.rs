//! Any rate and any number of channels → 16 kHz mono, as it arrives, with no lost head or tail.
//!
//! A resampler's filter delays; here the delay is taken out again, so that output sample *i* is the
//! sound at time *i*/16000 of the input, and [`Conditioner::finish`] hands out what is still inside
//! (rubato#53, #85: lost heads and tails). The output has exactly round(frames · 16000 / rate)
//! samples, halves rounded up.
//!
//! Where the two rates have a common block of at most 40 ms (all the usual ones), the resampling is
//! done by FFT: 20 ms blocks, or 40 ms below 16 kHz; about a tenth of the cost of the sinc
//! interpolator, which serves the odd rates with blocks of 10 ms. Both use the same filter: a sinc of 320
//! samples at the slower rate under a Blackman-Harris window (side lobes −92 dB), which passes up to
//! 7.6 kHz and is down before anything folds back at 8 kHz.

use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{
    Async, Fft, FixedAsync, FixedSync, Indexing, Resampler, SincInterpolationParameters,
    WindowFunction, calculate_cutoff,
};

use crate::clock::{SAMPLE_RATE, Samples};
use crate::error::Error;
use crate::source::Format;

/// What becomes of several channels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Channels {
    /// Their average.
    #[default]
    Mix,
    /// This one, counted from 1.
    One(u16),
}

/// Turns native frames into 16 kHz mono, piece by piece.
pub struct Conditioner {
    format: Format,
    channels: Channels,
    /// `None`: the input is at 16 kHz already and passes through untouched.
    resampler: Option<Box<dyn Resampler<f32>>>,
    /// Mono, at the native rate, not yet resampled.
    pending: Vec<f32>,
    /// What the resampler writes into.
    block: Vec<f32>,
    /// What the caller gets.
    out: Vec<f32>,
    /// Output samples of the filter's delay that are still to be dropped.
    trim: usize,
    frames_in: u64,
    samples_out: u64,
    is_finished: bool,
}

/// The filter's length in samples of the slower of both rates, 20 ms at 16 kHz.
const TAPS: u32 = 320;
/// The longest block in output samples: 40 ms.
const LONGEST_BLOCK: u32 = 640;
const WINDOW: WindowFunction = WindowFunction::BlackmanHarris;

impl Conditioner {
    /// A conditioner for this input.
    ///
    /// # Errors
    /// [`Error::NoSuchChannel`], [`Error::Rate`], [`Error::ChannelCount`], [`Error::Resample`].
    pub fn new(format: Format, channels: Channels) -> Result<Self, Error> {
        let format = Format::new(format.sample_rate, u32::from(format.channels))?;
        if let Channels::One(wanted) = channels
            && !(1..=format.channels).contains(&wanted)
        {
            return Err(Error::NoSuchChannel {
                wanted,
                available: format.channels,
            });
        }
        let (resampler, trim) = match resampler(format.sample_rate)? {
            Some((resampler, delay)) => (Some(resampler), delay),
            None => (None, 0),
        };
        let block = vec![0.0; resampler.as_ref().map_or(0, |r| r.output_frames_max())];
        Ok(Self {
            format,
            channels,
            resampler,
            pending: Vec::new(),
            block,
            out: Vec::new(),
            trim,
            frames_in: 0,
            samples_out: 0,
            is_finished: false,
        })
    }

    /// Takes whole interleaved frames (f32) at the native rate and returns the 16 kHz mono samples
    /// that are ready, valid until the next call. Allocates nothing once its buffers have seen the
    /// largest piece. Samples that make no whole frame are ignored.
    ///
    /// # Errors
    /// [`Error::Resample`], [`Error::Finished`].
    pub fn push(&mut self, interleaved: &[f32]) -> Result<&[f32], Error> {
        if self.is_finished {
            return Err(Error::Finished);
        }
        self.out.clear();
        let width = usize::from(self.format.channels);
        let frames = interleaved.chunks_exact(width);
        self.frames_in += frames.len() as u64;
        let mono = if self.resampler.is_some() {
            &mut self.pending
        } else {
            &mut self.out
        };
        match self.channels {
            _ if width == 1 => mono.extend_from_slice(interleaved),
            Channels::Mix => mono.extend(frames.map(|f| f.iter().sum::<f32>() / width as f32)),
            Channels::One(n) => mono.extend(frames.map(|f| f[usize::from(n) - 1])),
        }
        self.resample_pending()?;
        self.samples_out += self.out.len() as u64;
        Ok(&self.out)
    }

    /// Returns what is still inside, so that the total is round(frames · 16000 / rate).
    ///
    /// # Errors
    /// [`Error::Resample`], [`Error::Finished`] where it had been called before.
    pub fn finish(&mut self) -> Result<&[f32], Error> {
        if self.is_finished {
            return Err(Error::Finished);
        }
        self.is_finished = true;
        self.out.clear();
        let total = self.total();
        while self.samples_out + (self.out.len() as u64) < total {
            // The rest, and after it silence until the filter has let everything out.
            let need = self.resampler.as_ref().map_or(0, |r| r.input_frames_next());
            let before = self.pending.len();
            self.pending.resize(before.max(need), 0.0);
            self.resample_pending()?;
        }
        self.out.truncate((total - self.samples_out) as usize);
        self.samples_out = total;
        Ok(&self.out)
    }

    /// Samples (16 kHz) that have gone in and not yet come out: output so far plus this is the input's
    /// end. Bounded by a block and the filter: 30 ms at the usual rates, 60 ms below 16 kHz.
    #[must_use]
    pub fn delay(&self) -> Samples {
        Samples(self.total().saturating_sub(self.samples_out))
    }

    /// Samples (16 kHz) handed out so far: the next one is the sound at this time of the input.
    #[must_use]
    pub fn position(&self) -> Samples {
        Samples(self.samples_out)
    }

    fn total(&self) -> u64 {
        let rate = u128::from(self.format.sample_rate);
        ((u128::from(self.frames_in) * u128::from(SAMPLE_RATE) + rate / 2) / rate) as u64
    }

    fn resample_pending(&mut self) -> Result<(), Error> {
        let Some(resampler) = &mut self.resampler else {
            return Ok(());
        };
        let rate = self.format.sample_rate;
        let failed = |reason: String| Error::Resample { rate, reason };
        let mut used = 0;
        while self.pending.len() - used >= resampler.input_frames_next() {
            let input = &self.pending[used..];
            let input =
                InterleavedSlice::new(input, 1, input.len()).map_err(|e| failed(e.to_string()))?;
            let room = self.block.len();
            let mut output = InterleavedSlice::new_mut(&mut self.block, 1, room)
                .map_err(|e| failed(e.to_string()))?;
            let (taken, made) = resampler
                .process_into_buffer(&input, &mut output, None::<&Indexing>)
                .map_err(|e| failed(e.to_string()))?;
            if taken == 0 {
                return Err(failed("the resampler takes no input".to_owned()));
            }
            used += taken;
            let head = self.trim.min(made);
            self.trim -= head;
            self.out.extend_from_slice(&self.block[head..made]);
        }
        self.pending.drain(..used);
        Ok(())
    }
}

/// A resampler and its filter's delay in output samples.
type Delayed = (Box<dyn Resampler<f32>>, usize);

/// `None`: there is nothing to do.
fn resampler(rate: u32) -> Result<Option<Delayed>, Error> {
    if rate == SAMPLE_RATE {
        return Ok(None);
    }
    let failed = |e: rubato::ResamplerConstructionError| Error::Resample {
        rate,
        reason: e.to_string(),
    };
    let ratio = f64::from(SAMPLE_RATE) / f64::from(rate);
    // The peak of a filter of so many input samples, in output samples. rubato's own `output_delay`
    // forgets that a filter of odd length peaks half a sample early, and that the sinc interpolator's
    // first sample is already one step in (measured with tones, see tests/resample.rs).
    let peak = |length: usize| (length / 2) as f64 * ratio;
    let slower = rate.min(SAMPLE_RATE);
    // Below 8 kHz the filter gets shorter in samples, lest it be longer than a block of 40 ms.
    let taps = TAPS.min(slower / 25);
    let common = gcd(rate, SAMPLE_RATE);
    let (unit_in, unit_out) = (rate / common, SAMPLE_RATE / common);
    let units = taps.div_ceil(unit_in.min(unit_out));
    if units * unit_out <= LONGEST_BLOCK {
        let block = (units * unit_in) as usize;
        let (from, to) = (rate as usize, SAMPLE_RATE as usize);
        let fft =
            Fft::new_custom(from, to, block, 1, 1, WINDOW, FixedSync::Both).map_err(failed)?;
        return Ok(Some((Box::new(fft), peak(block).round() as usize)));
    }
    // rubato counts the filter in input samples, but the cutoff relative to the slower rate.
    let length = (f64::from(taps) * f64::from(rate) / f64::from(slower)).ceil() as usize;
    let length = length.next_multiple_of(8);
    let filter = SincInterpolationParameters::new(length, WINDOW)
        .f_cutoff(calculate_cutoff::<f32>(taps as usize, WINDOW));
    let chunk = (rate / 100) as usize;
    let sinc = Async::new_sinc(ratio, 1.0, &filter, chunk, 1, FixedAsync::Input).map_err(failed)?;
    Ok(Some((
        Box::new(sinc),
        (peak(length) - 1.0).round() as usize,
    )))
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(sample_rate: u32, channels: u16) -> Format {
        Format {
            sample_rate,
            channels,
        }
    }

    #[test]
    fn sixteen_kilohertz_passes_through_untouched() {
        let mut c = Conditioner::new(format(16_000, 1), Channels::Mix).unwrap();
        assert_eq!(c.push(&[0.1, -0.2, 1.5]).unwrap(), [0.1, -0.2, 1.5]);
        assert_eq!(c.delay(), Samples(0));
        assert!(c.finish().unwrap().is_empty());
    }

    #[test]
    fn channels_are_averaged_or_picked() {
        let frames = [0.5, -0.5, 0.25, 0.75];
        let mut mix = Conditioner::new(format(16_000, 2), Channels::Mix).unwrap();
        assert_eq!(mix.push(&frames).unwrap(), [0.0, 0.5]);
        let mut second = Conditioner::new(format(16_000, 2), Channels::One(2)).unwrap();
        assert_eq!(second.push(&frames).unwrap(), [-0.5, 0.75]);
    }

    #[test]
    fn a_channel_that_is_not_there_is_an_error_naming_the_count() {
        for wanted in [0, 3] {
            let e = Conditioner::new(format(16_000, 2), Channels::One(wanted))
                .err()
                .unwrap();
            assert_eq!(
                e.to_string(),
                format!("channel {wanted} does not exist: the source has 2 (numbered from 1)")
            );
        }
    }

    #[test]
    fn nothing_can_be_pushed_after_the_end() {
        let mut c = Conditioner::new(format(48_000, 1), Channels::Mix).unwrap();
        c.finish().unwrap();
        assert!(matches!(c.push(&[0.0]), Err(Error::Finished)));
        assert!(matches!(c.finish(), Err(Error::Finished)));
    }
}
