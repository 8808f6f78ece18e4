//! What the documentation for outside readers says is what the program does.

use std::path::Path;

use firstword::config::{SECTIONS, markdown_row};
use firstword::exit::EXITS;

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
