//! The configuration as text for people and programs: TOML with origins, JSON, help, rows of the documentation.

use super::settings::{SECTIONS, Setting};
use super::value::Value;
use super::{Config, Origin};
use crate::exit::printable;

impl Config {
    /// The effective configuration as TOML, each line with its origin in a comment. `found` says what an
    /// empty path stands for at present (`None`: nothing more to say).
    #[must_use]
    pub fn to_toml(&self, found: impl Fn(&Setting) -> Option<String>) -> String {
        let mut text = String::new();
        for section in SECTIONS {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&format!("[{}]\n", section.name));
            let lines: Vec<(String, String)> = self
                .iter()
                .filter(|(setting, ..)| setting.section == section.name)
                .map(|(setting, value, origin)| {
                    let note = match value {
                        Value::Path(path) if path.as_os_str().is_empty() => found(setting),
                        _ => None,
                    };
                    let origin = match note {
                        Some(note) => format!("{origin}: {note}"),
                        None => origin.to_string(),
                    };
                    (format!("{} = {}", setting.key, value.to_toml()), origin)
                })
                .collect();
            let width = lines
                .iter()
                .map(|(line, _)| line.chars().count())
                .max()
                .unwrap_or(0)
                .min(44);
            for (line, origin) in lines {
                text.push_str(&format!("{line:width$}  # {}\n", printable(&origin)));
            }
        }
        text
    }

    /// The effective configuration as JSON: `{"section": {"key": {"value": …, "origin": "…"}}}`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let mut sections = serde_json::Map::new();
        for (setting, value, origin) in self.iter() {
            let section = sections
                .entry(setting.section)
                .or_insert_with(|| serde_json::json!({}));
            section[setting.key] =
                serde_json::json!({"value": value.to_json(), "origin": describe(origin)});
        }
        sections.into()
    }
}

fn describe(origin: &Origin) -> serde_json::Value {
    match origin {
        Origin::Default => serde_json::json!({"kind": "default"}),
        Origin::File { path, line } => {
            serde_json::json!({"kind": "file", "file": path.to_string_lossy(), "line": line})
        }
        Origin::Environment(variable) => {
            serde_json::json!({"kind": "environment", "variable": variable})
        }
        Origin::Flag(flag) => serde_json::json!({"kind": "flag", "flag": flag}),
    }
}

/// The keys as help text: default, what is accepted, variable and meaning of each.
#[must_use]
pub fn settings_help() -> String {
    let mut text = String::from("Keys (default; accepted values; environment variable):\n");
    for section in SECTIONS {
        text.push_str(&format!("\n  [{}]  {}\n", section.name, section.meaning()));
        for setting in section.settings {
            let mut variables = vec![setting.variable()];
            variables.extend(setting.also.iter().map(|also| (*also).to_owned()));
            text.push_str(&format!(
                "    {} = {}  ({}; {})\n        {}\n",
                setting.key,
                default_toml(setting),
                setting.kind,
                variables.join(", "),
                setting.meaning(),
            ));
        }
    }
    text.pop();
    text
}

/// A key's row in `docs/configuration.md`: key, default, accepted values, environment variables, meaning.
#[must_use]
pub fn markdown_row(setting: &Setting) -> String {
    let also: String = setting
        .also
        .iter()
        .map(|also| format!(", `{also}`"))
        .collect();
    format!(
        "| `{}` | `{}` | {} | `{}`{also} | {} |",
        setting.key,
        default_toml(setting),
        setting.kind,
        setting.variable(),
        setting.meaning(),
    )
}

fn default_toml(setting: &Setting) -> String {
    setting
        .default_value()
        .map_or_else(|_| setting.default.to_owned(), |value| value.to_toml())
}
