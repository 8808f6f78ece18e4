//! `firstword log export`: what goes into other programs.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use firstword::log::read::planted::{self, Plan, Plant};

fn export(arguments: &[&str], places: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_firstword"))
        .env_clear()
        .env(
            "FIRSTWORD_HOME",
            std::env::temp_dir().join("firstword-no-home"),
        )
        .stdin(Stdio::null())
        .args(["log", "export"])
        .args(arguments)
        .args(places)
        .output()
        .expect("the program starts")
}

fn planted() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plan = Plan {
        records: 300,
        per_segment: 100,
        plant: Plant::Thermal,
        ..Plan::default()
    };
    planted::write(folder.path(), &plan).expect("the folder can be written");
    folder
}

/// Rows as fields; none of the planted texts has a comma but the device's, which is quoted.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut inside) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '"' => inside = !inside,
            ',' if !inside => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

#[test]
fn every_record_is_a_row_with_the_figures_of_its_line() {
    let folder = planted();
    let output = export(&[], &[folder.path()]);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
    let text = String::from_utf8(output.stdout).unwrap();
    let header = fields(text.lines().next().unwrap());
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    let rows: Vec<Vec<String>> = text.lines().skip(1).map(fields).collect();
    assert_eq!(rows.len(), 300);
    let mut checked = 0;
    // Against the lines themselves, read as JSON.
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        for line in fs::read_to_string(path).unwrap().lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            if !matches!(
                line["kind"].as_str(),
                Some("turn" | "request" | "utterance")
            ) {
                continue;
            }
            let at = line["at_ns"].to_string();
            let row = rows.iter().find(|row| row[column("at_ns")] == at).unwrap();
            let is = |name: &str, value: &serde_json::Value| {
                let found = &row[column(name)];
                match value.as_f64() {
                    Some(value) => assert!(
                        (found.parse::<f64>().unwrap() - value).abs() < 1e-3,
                        "{name}: {found}"
                    ),
                    None if value.is_null() => assert_eq!(found, "", "{name}"),
                    None => assert_eq!(*found, value.to_string().trim_matches('"'), "{name}"),
                }
            };
            for name in ["kind", "cold", "model", "target"] {
                is(name, &line[name]);
            }
            is("stage_encode_ms", &line["stages_ms"]["encode"]);
            is("stage_prefill_ms", &line["stages_ms"]["prefill"]);
            is("held", &line["objective"]["held"]);
            is("temperature_c", &line["device"]["temperature_c"]);
            is("final_latency_ms", &line["final_latency_ms"]);
            checked += 1;
        }
    }
    assert_eq!(checked, 300);
    let times: Vec<&String> = rows.iter().map(|row| &row[column("time")]).collect();
    assert!(
        times.is_sorted() && times[0].starts_with("2026-11-24T08:0"),
        "{}",
        times[0]
    );
    assert!(rows.iter().any(|row| row[column("throttled")] == "true"));
}

#[test]
fn a_file_is_replaced_only_by_a_whole_one() {
    let folder = planted();
    let to = folder.path().join("out.csv");
    fs::write(&to, "old").unwrap();
    let path = to.to_str().unwrap();
    let output = export(&["-o", path], &[&folder.path().join("none")]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(fs::read_to_string(&to).unwrap(), "old");
    let output = export(&["-o", path], &[folder.path()]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(fs::read_to_string(&to).unwrap().lines().count(), 301);
    let output = export(&["-o", "/dev/full"], &[folder.path()]);
    assert_eq!(output.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no space left"));
}

#[test]
fn a_reader_that_goes_away_is_no_error_message() {
    let folder = planted();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_firstword"))
        .env_clear()
        .env("FIRSTWORD_HOME", folder.path())
        .args(["log", "export"])
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(141));
    assert!(output.stderr.is_empty());
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_program_without_parquet_says_how_to_build_one_with_it() {
    let folder = planted();
    let output = export(
        &["--format", "parquet", "-o", "x.parquet"],
        &[folder.path()],
    );
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("--features parquet") && said.contains("--format csv"),
        "{said}"
    );
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_holds_what_csv_holds() {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    let folder = planted();
    let to = folder.path().join("out.parquet");
    let output = export(
        &["--format", "parquet", "-o", to.to_str().unwrap()],
        &[folder.path()],
    );
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let reader = SerializedFileReader::new(fs::File::open(&to).unwrap()).unwrap();
    let csv = String::from_utf8(export(&[], &[folder.path()]).stdout).unwrap();
    let header = fields(csv.lines().next().unwrap());
    let mut rows = 0;
    for (row, line) in reader.get_row_iter(None).unwrap().zip(csv.lines().skip(1)) {
        let row = row.unwrap();
        for ((name, value), (column, text)) in
            row.get_column_iter().zip(header.iter().zip(fields(line)))
        {
            assert_eq!(name, column);
            let value = value.to_string();
            let value = value.trim_matches('"');
            match (value, value.parse::<f64>(), text.parse::<f64>()) {
                ("null", ..) => assert_eq!(text, "", "{name}"),
                (_, Ok(a), Ok(b)) => assert!((a - b).abs() < 1e-5, "{name}: {a} {b}"),
                // The reader prints instants in its own way.
                _ if name == "time" => assert!(value.starts_with("2026-11-24")),
                _ => assert_eq!(value, text, "{name}"),
            }
        }
        rows += 1;
    }
    assert_eq!(rows, 300);
    assert!(
        export(&["--format", "parquet"], &[folder.path()])
            .status
            .code()
            == Some(2)
    );
}
