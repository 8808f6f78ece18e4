//! "Did you mean": the nearest known name to one that was mistyped.

/// The candidate that is near enough to be what the writer meant.
///
/// Jaro-Winkler similarity, because people get the beginning of a name right more often than its end; 0.8
/// keeps "modle" → "model" and drops names that merely share letters.
pub fn nearest<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase().replace('-', "_");
    candidates
        .map(|candidate| {
            (
                strsim::jaro_winkler(&written, &candidate.to_lowercase().replace('-', "_")),
                candidate,
            )
        })
        .filter(|(score, _)| *score >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_slip_is_recognised_and_a_different_word_is_not() {
        let known = ["model", "target", "partial_interval"];
        assert_eq!(nearest("modle", known.into_iter()), Some("model"));
        assert_eq!(
            nearest("partial-interval", known.into_iter()),
            Some("partial_interval")
        );
        assert_eq!(nearest("zebra", known.into_iter()), None);
    }
}
