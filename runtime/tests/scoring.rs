//! Word error scoring must itself be right: a lenient scorer hides a bad recogniser.

#![allow(clippy::unwrap_used)]

mod score;

use score::{BECKETT, TWO_CITIES, errors, normalise};

/// `normaliser.tsv` was written by PyPI `whisper-normalizer` 0.1.15 (`normaliser.py`).
fn original() -> Vec<(&'static str, &'static str, &'static str)> {
    include_str!("score/normaliser.tsv")
        .lines()
        .map(|line| {
            let (kind, rest) = line.split_once('\t').unwrap();
            let (text, normalised) = rest.split_once('\t').unwrap();
            (kind, text, normalised)
        })
        .collect()
}

#[test]
fn texts_normalise_as_whispers_normaliser_does() {
    let rows = original();
    assert!(rows.len() > 500, "the table holds only {} rows", rows.len());
    let wrong: Vec<String> = rows
        .iter()
        .filter(|(_, text, expected)| normalise(text).join(" ") != *expected)
        .map(|(_, text, expected)| {
            format!(
                "{text:?}: expected {expected:?}, found {:?}",
                normalise(text).join(" ")
            )
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        rows.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_true_text_is_in_the_normalisers_table() {
    let known: Vec<Vec<String>> = original()
        .iter()
        .filter(|(kind, ..)| *kind == "true")
        .map(|(_, _, normalised)| normalised.split_whitespace().map(str::to_owned).collect())
        .collect();
    assert!(known.contains(&normalise(BECKETT)), "beckett.wav");
    assert!(known.contains(&normalise(TWO_CITIES)), "two_cities.wav");
    let Some(clips) = score::all_clips() else {
        return;
    };
    for clip in clips {
        let words = normalise(&clip.text);
        assert!(
            known.contains(&words),
            "{}: run score/normaliser.py again",
            clip.name
        );
    }
}

#[test]
fn errors_are_counted_as_by_hand() {
    // Reference, hypothesis, errors, words of the reference; alignments done by hand.
    let cases = [
        ("", "", 0, 0),
        ("a b c", "a b c", 0, 3),
        ("a b c", "", 3, 3),
        ("", "a b", 2, 0),
        ("a b c", "a x c", 1, 3),     // b exchanged
        ("a b c", "a c", 1, 3),       // b left out
        ("a b c", "a b x c", 1, 3),   // x put in
        ("a b c d", "b c d e", 2, 4), // a left out, e put in
        ("a b c d", "d c b a", 4, 4), // all exchanged; keeping one costs as much
        ("a b", "b a", 2, 2),         // no transpositions
        ("go forward ten meters", "Go forward 10 metres.", 0, 4),
        ("mister john dashwood", "Mr. John Dashwood", 0, 3),
        ("cold hearted", "coldhearted", 2, 2), // one exchanged, one left out
        (
            BECKETT,
            "Ever tried, ever failed, no matter. Try again, fail again, fail better!",
            0,
            12,
        ),
        (BECKETT, "You", 12, 12),
    ];
    for (reference, hypothesis, wrong, words) in cases {
        assert_eq!(
            errors(reference, hypothesis),
            (wrong, words),
            "{reference:?} {hypothesis:?}"
        );
    }
}

#[test]
fn the_wheels_recordings_have_the_published_word_counts() {
    // docs/speech.md quotes errors of 12 and of 119.
    assert_eq!(normalise(BECKETT).len(), 12);
    assert_eq!(normalise(TWO_CITIES).len(), 119);
}

#[test]
fn both_sides_of_a_stereo_recording_are_clips() {
    let table = "file\tseconds\tsample_rate\tchannels\ttranscript\n\
                 one.wav\t1.0\t16000\t1\thello there\tbasis\n\
                 two.wav\t5.0\t16000\t2\t(L) left words. (R) right words.\tbasis\n";
    let clips = score::read_manifest_text(table);
    let found: Vec<_> = clips
        .iter()
        .map(|c| (c.name.as_str(), c.channel, c.text.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("one.wav", None, "hello there"),
            ("two.wav (channel 1)", Some(1), "left words."),
            ("two.wav (channel 2)", Some(2), "right words."),
        ]
    );
    assert!(clips[1].path.ends_with("two.wav"));
}

#[test]
fn scored_clips_are_real_files_without_wake_words() {
    let Some(clips) = score::clips() else { return };
    for clip in &clips {
        assert!(clip.path.is_file(), "{} is absent", clip.path.display());
        assert!(!clip.text.is_empty(), "{} has no text", clip.name);
        assert!(
            !clip.name.starts_with("mww_") && clip.name != "english_123.wav",
            "{}",
            clip.name
        );
    }
    // 21 recordings, less five of wake words and one of counting, plus the second side of the stereo one.
    assert_eq!(clips.len(), 15, "has the manifest changed?");
}
