//! What the documentation for outside readers says is what the program does.

use std::path::Path;

use firstword::config::{SECTIONS, markdown_row};
use firstword::exit::EXITS;
use firstword::record::{Request, Turn};

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_key_is_documented_with_its_default_range_and_variable() {
    let page = page("configuration.md");
    for section in SECTIONS {
        let heading = format!(
            "## `[{}]`: {}",
            section.name,
            section.meaning().to_lowercase().trim_end_matches('.')
        );
        assert!(
            page.lines().any(|line| line == heading),
            "docs/configuration.md lacks the line\n{heading}"
        );
        let rows: Vec<String> = section.settings.iter().map(markdown_row).collect();
        let block = rows.join("\n");
        assert!(
            page.contains(&block),
            "docs/configuration.md should have these rows:\n{block}"
        );
    }
    let rows = page.lines().filter(|line| line.starts_with("| `")).count();
    let keys: usize = SECTIONS.iter().map(|section| section.settings.len()).sum();
    assert_eq!(
        rows, keys,
        "docs/configuration.md documents a key that does not exist"
    );
}

#[test]
fn every_exit_code_is_documented() {
    let page = page("exit-codes.md");
    for (exit, meaning) in EXITS {
        let row = format!("| {} | {meaning} |", exit.code());
        assert!(
            page.contains(&row),
            "docs/exit-codes.md should have this row:\n{row}"
        );
    }
}

#[test]
fn every_field_of_the_latency_log_is_documented() {
    fn fields(prefix: &str, value: &serde_json::Value, found: &mut Vec<String>) {
        for (key, value) in value.as_object().into_iter().flatten() {
            let name = format!("{prefix}{key}");
            fields(&format!("{name}."), value, found);
            found.push(name);
        }
    }
    let (heard, language, reply) = Default::default();
    let turn = Turn::new(&heard, language, reply);
    let request = Request::new(turn.language.clone(), String::new(), reply);
    let mut written = Vec::new();
    for record in [
        serde_json::to_value(&heard).unwrap(),
        serde_json::to_value(&request).unwrap(),
        serde_json::to_value(&turn).unwrap(),
    ] {
        fields("", &record, &mut written);
    }
    // What is in a turn's `reply` has the names that a request's fields have.
    written.retain(|name| !name.starts_with("reply."));
    assert!(written.len() > 60, "{written:?}");
    let page = page("latency-log.md");
    let documented: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    for name in &written {
        assert!(
            documented.contains(&name.as_str()),
            "docs/latency-log.md lacks {name}"
        );
    }
    for name in documented {
        assert!(
            written.iter().any(|w| w == name),
            "docs/latency-log.md has {name}, records have not"
        );
    }
}
