//! What a live stream relies on: across two threads every sample arrives once, in order, with the
//! instant at which it was captured, and the reader knows where frames are missing.

use std::thread;
use std::time::Duration;

use firstword_audio::ring::{Block, ring};
use firstword_audio::{Format, Stamp};

/// At 1 kHz frame k (from 1) is captured at k milliseconds: every stamp is known by counting.
const FORMAT: Format = Format {
    sample_rate: 1_000,
    channels: 3,
};

fn captured(frame: u64) -> Stamp {
    Stamp::from_nanos(frame * 1_000_000)
}

/// Frame k holds three values that tell which frame and which channel they are.
fn fill(frames: std::ops::Range<u64>, into: &mut Vec<f32>) {
    into.clear();
    into.extend(frames.flat_map(|k| (0..3).map(move |c| (k % 4_000_000 * 4 + c) as f32)));
}

#[test]
fn every_sample_of_a_file_arrives_in_order_with_its_stamp() {
    const TOTAL: u64 = 300_000;
    let (mut writer, mut reader) = ring(FORMAT, 700);
    let producer = thread::spawn(move || {
        let mut slice = Vec::new();
        let (mut next, mut step) = (1, 1);
        while next <= TOTAL {
            let end = (next + step).min(TOTAL + 1);
            fill(next..end, &mut slice);
            assert!(writer.push_all(&slice, captured(end - 1)));
            next = end;
            // Slices of 1 to 996 frames, some larger than the ring.
            step = step * 7 % 997;
        }
    });
    let (mut out, mut expected) = (vec![0.0; 3 * 450], Vec::new());
    let mut position = 0;
    while !reader.is_finished() {
        assert!(reader.wait(Duration::from_secs(60)));
        let room = 3 * (position as usize % 449 + 1);
        let Some(Block {
            frames,
            captured: at,
            lost_before,
        }) = reader.pop(&mut out[..room])
        else {
            continue;
        };
        fill(position + 1..position + 1 + frames as u64, &mut expected);
        assert_eq!(out[..3 * frames], expected[..], "after frame {position}");
        position += frames as u64;
        assert_eq!((at, lost_before), (captured(position), 0));
    }
    assert_eq!(position, TOTAL);
    producer.join().unwrap();
}

#[test]
fn a_live_stream_that_overruns_loses_whole_frames_and_says_where() {
    const TOTAL: u64 = 200_000;
    let (mut writer, mut reader) = ring(FORMAT, 100);
    let producer = thread::spawn(move || {
        let mut slice = Vec::new();
        for first in (1..=TOTAL).step_by(40) {
            fill(first..first + 40, &mut slice);
            let accepted = writer.push(&slice, captured(first + 39));
            if accepted < 40 {
                writer.overrun(40 - accepted);
            }
            if first % 3 == 0 {
                thread::yield_now();
            }
        }
    });
    let (mut out, mut expected) = (vec![0.0; 3 * 64], Vec::new());
    let (mut position, mut lost) = (0, 0);
    while !reader.is_finished() {
        let Some(block) = reader.pop(&mut out) else {
            thread::yield_now();
            continue;
        };
        lost += block.lost_before;
        position += block.lost_before;
        fill(
            position + 1..position + 1 + block.frames as u64,
            &mut expected,
        );
        assert_eq!(
            out[..3 * block.frames],
            expected[..],
            "after frame {position}"
        );
        position += block.frames as u64;
        assert_eq!(block.captured, captured(position));
    }
    producer.join().unwrap();
    // Frames lost after the last accepted slice have no block to be reported with.
    assert_eq!(reader.dropped_frames(), lost + TOTAL - position);
}

#[test]
fn a_producer_waiting_for_room_goes_on_when_the_reader_vanishes() {
    let (mut writer, reader) = ring(FORMAT, 10);
    let producer = thread::spawn(move || writer.push_all(&[0.0; 3 * 100], captured(100)));
    drop(reader);
    assert!(!producer.join().unwrap());
}
