//! A template's text, made ready for our engine.
//!
//! Two things are rewritten, tag by tag. Hugging Face's `{% generation %}…{% endgeneration %}` only marks the assistant's
//! text for training: it becomes a block that is always taken. And the value of every `{% set %}` goes through
//! `bounded(…)`: the engine counts steps, but forty steps of `{% set s = s ~ s %}` fill any memory.

/// The function that checks a value of `{% set %}`.
pub(super) const BOUNDED: &str = "bounded";

/// The text to give to the engine.
pub(super) fn prepare(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + source.len() / 8);
    let mut rest = source;
    while let Some(at) = rest.find("{") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let length = match from.get(..2) {
            Some("{#") => from.find("#}").map(|end| end + 2),
            Some("{{") => tag_end(&from[2..], "}}").map(|end| end + 4),
            Some("{%") => tag_end(&from[2..], "%}").map(|end| end + 4),
            _ => Some(1),
        };
        let (tag, after) = from.split_at(length.unwrap_or(from.len()));
        rest = after;
        match tag
            .strip_prefix("{%")
            .and_then(|tag| tag.strip_suffix("%}"))
        {
            Some(inner) if word(inner) == "raw" => {
                let end = rest.find("endraw").unwrap_or(rest.len());
                out.push_str(tag);
                out.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            Some(inner) => {
                out.push_str("{%");
                statement(inner, &mut out);
                out.push_str("%}");
            }
            None => out.push_str(tag),
        }
    }
    out.push_str(rest);
    out
}

/// The first word of a tag.
fn word(inner: &str) -> &str {
    let inner = inner.trim_start_matches(['-', '+']).trim_start();
    let end = inner.find(|character: char| !character.is_alphanumeric() && character != '_');
    &inner[..end.unwrap_or(inner.len())]
}

/// Where the closing delimiter stands, not counting those in quotes.
fn tag_end(inner: &str, close: &str) -> Option<usize> {
    places(inner).find(|&at| inner[at..].starts_with(close))
}

/// The places outside quotes.
fn places(text: &str) -> impl Iterator<Item = usize> {
    let mut quote = None;
    let mut escaped = false;
    text.char_indices().filter_map(move |(at, character)| {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if character == '\\' => escaped = true,
            Some(open) if character == open => quote = None,
            Some(_) => {}
            None if character == '"' || character == '\'' => quote = Some(character),
            None => return Some(at),
        }
        None
    })
}

fn statement(inner: &str, out: &mut String) {
    match word(inner) {
        "generation" => out.push_str(&inner.replacen("generation", "if true", 1)),
        "endgeneration" => out.push_str(&inner.replacen("endgeneration", "endif", 1)),
        "set" => match assignment(inner) {
            Some((head, value, tail)) => {
                out.push_str(&format!("{head} {BOUNDED}(({value})){tail}"));
            }
            None => out.push_str(inner),
        },
        _ => out.push_str(inner),
    }
}

/// `-set x = y -` → `-set x =`, `y`, `-`; `None` where several names are set at once, or a block is.
fn assignment(inner: &str) -> Option<(&str, &str, &str)> {
    let equals = places(inner).find(|&at| inner[at..].starts_with('='))?;
    let (head, value) = inner.split_at(equals + 1);
    if head.contains([',', '(']) || value.starts_with('=') {
        return None;
    }
    let body = value.strip_suffix(['-', '+']).unwrap_or(value);
    Some((head, body.trim(), &value[body.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_rewritten_and_the_rest_is_left_alone() {
        let cases = [
            (
                "{% generation %}x{%- endgeneration -%}",
                "{% if true %}x{%- endif -%}",
            ),
            (
                "{%- set x = a + 'b' -%}",
                "{%- set x = bounded((a + 'b'))-%}",
            ),
            ("{% set x = '%}' %}", "{% set x = bounded(('%}'))%}"),
            ("{% set ns.x = 1, 2 %}", "{% set ns.x = bounded((1, 2))%}"),
            ("{% set a, b = c %}", "{% set a, b = c %}"),
            ("{% set x %}y{% endset %}", "{% set x %}y{% endset %}"),
            (
                "{# {% set x = 1 %} #}{{ '{%' }}{",
                "{# {% set x = 1 %} #}{{ '{%' }}{",
            ),
            (
                "{% raw %}{% set x = 1 %}{% endraw %}",
                "{% raw %}{% set x = 1 %}{% endraw %}",
            ),
            ("{% set x = 'unclosed", "{% set x = 'unclosed"),
        ];
        for (source, expected) in cases {
            assert_eq!(prepare(source), expected);
        }
    }
}
