//! What a latency log says: reports, comparisons, exports, for people and for programs.

pub mod bootstrap;
pub mod compare;
pub mod curve;
pub mod diagnose;
pub mod export;
pub mod gather;
pub mod html;
pub mod replay;
pub mod stage;
pub mod stats;
pub mod summary;
pub mod table;
pub mod tail;

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;
    use crate::log::read::planted::{self, Plan, Plant};
    use crate::log::read::{Range, Source};

    fn reported(folder: &std::path::Path) {
        let places = vec![folder.to_owned()];
        let Ok(source) = Source::open(&places) else {
            return;
        };
        let everything = Range::default();
        let gathered = gather::gather(&source, &everything, &|| false);
        let summary = summary::summarise(&source, &places, &everything, &gathered);
        assert!(!table::text(&summary).is_empty());
        assert!(html::page(&summary).ends_with("</html>\n"));
        serde_json::to_string(&summary).unwrap();
        let comparison = compare::compare(("a", &gathered), ("b", &gathered));
        assert!(!compare::text(&comparison).is_empty());
        let teller = tail::Teller { colour: true };
        source.in_order(
            &everything,
            &mut Default::default(),
            &mut |segment, line| {
                let _ = teller.tell(segment, line);
                std::ops::ControlFlow::Continue(())
            },
        );
        let load = replay::load(&source, &everything, &mut Default::default(), &|| false);
        replay::replay(
            &load,
            &mut [
                Box::new(replay::NoBatching),
                Box::new(replay::Fixed::default()),
            ],
        )
        .unwrap();
        let mut csv = export::Csv::new(Vec::new()).unwrap();
        export::export(
            &source,
            &everything,
            &|| false,
            &mut Default::default(),
            &mut csv,
        )
        .unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Whatever the numbers and bytes of a damaged or hostile log are, it is reported and nothing panics.
        #[test]
        fn a_damaged_log_is_reported_as_far_as_it_goes(
            seed in any::<u64>(),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
            numbers in proptest::collection::vec((any::<prop::sample::Index>(), prop::sample::select(vec![
                "0", "-1", "1e300", "18446744073709551615", "-9223372036854775808", "9223372036854775807", "null",
                "1e-9", "864000000", "4294967295", "\"x\"", "[]", "{}", "true",
            ])), 0..12),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let plan = Plan { seed, records: 30, per_segment: 12, trace: true, plant: Plant::ALL[(seed % 4) as usize], ..Plan::default() };
            planted::write(folder.path(), &plan).unwrap();
            for entry in fs::read_dir(folder.path()).unwrap() {
                let path = entry.unwrap().path();
                let mut text = fs::read(&path).unwrap();
                for (at, number) in &numbers {
                    // The value behind some colon.
                    let colons: Vec<usize> = text.windows(2).enumerate().filter(|(_, pair)| pair[0] == b':' && pair[1] != b'{').map(|(at, _)| at).collect();
                    if colons.is_empty() {
                        continue;
                    }
                    let begin = colons[at.index(colons.len())] + 1;
                    let length = text[begin..].iter().position(|b| matches!(b, b',' | b'}' | b'\n')).unwrap_or(0);
                    text.splice(begin..begin + length, number.bytes());
                }
                for (at, byte) in &changes {
                    let place = at.index(text.len());
                    text[place] = *byte;
                }
                fs::write(&path, text).unwrap();
            }
            reported(folder.path());
        }
    }
}
