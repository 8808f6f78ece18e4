//! What was typed: the address of a file, or a Hugging Face repository with the files wanted from it.

use std::fmt;

use super::url::decoded;
use super::{HubError, Url};

/// Where a download comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// One file.
    File(Url),
    /// Files of a repository.
    Repository(Repository),
}

/// `OWNER/NAME[@REVISION][/PATTERN]` on a Hugging Face server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The owner.
    pub owner: String,
    /// The repository's own name.
    pub name: String,
    /// Branch, tag or commit; `main` where none is given.
    pub revision: Option<String>,
    /// Which files: a path, a folder, or a pattern with `*` (any characters, `/` too) and `?`.
    pub pattern: Option<String>,
}

/// Whether an argument is an address and not a name of the catalogue.
#[must_use]
pub fn is_address(text: &str) -> bool {
    text.starts_with("hf:") || text.contains("://")
}

impl Address {
    /// Reads an address. A page of the Hugging Face server `endpoint` means the repository it shows: people
    /// copy what their browser says.
    ///
    /// # Errors
    /// [`HubError::Address`].
    pub fn parse(text: &str, endpoint: &Url) -> Result<Self, HubError> {
        let refuse = |reason| HubError::Address {
            address: shown(text),
            reason,
        };
        if let Some(rest) = text.strip_prefix("hf:") {
            return Repository::parse(rest)
                .map(Self::Repository)
                .map_err(refuse);
        }
        let url = Url::parse(text).map_err(refuse)?;
        if url.origin() == endpoint.origin()
            && let Some(repository) = Repository::of_page(&url, endpoint)
        {
            return Ok(Self::Repository(repository));
        }
        if url.file_name().is_none() {
            return Err(refuse("it names no file"));
        }
        Ok(Self::File(url))
    }
}

impl fmt::Display for Address {
    /// The address without its query.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(url) => f.write_str(&url.shown()),
            Self::Repository(repository) => write!(f, "hf:{repository}"),
        }
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        if let Some(pattern) = &self.pattern {
            write!(f, "/{pattern}")?;
        }
        Ok(())
    }
}

impl Repository {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (owner, rest) = text
            .split_once('/')
            .ok_or("the repository's owner or name is missing")?;
        let (head, pattern) = match rest.split_once('/') {
            Some((head, pattern)) => (head, Some(pattern).filter(|pattern| !pattern.is_empty())),
            None => (rest, None),
        };
        let (name, revision) = match head.split_once('@') {
            Some((name, revision)) => (name, Some(revision)),
            None => (head, None),
        };
        // What Hugging Face allows in names; revisions may hold `/`, typed as %2F.
        let plain = |part: &str| {
            !part.is_empty()
                && part != "."
                && part != ".."
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        if !plain(owner) || !plain(name) {
            return Err("the repository's owner or name is not written as they are");
        }
        let revision = match revision {
            None => None,
            Some(text) => Some(
                decoded(text)
                    .filter(|text| !text.is_empty() && !text.chars().any(char::is_control))
                    .ok_or("the revision is empty or not text")?,
            ),
        };
        Ok(Self {
            owner: owner.to_owned(),
            name: name.to_owned(),
            revision,
            pattern: pattern.map(str::to_owned),
        })
    }

    /// The repository that a page of the server shows.
    fn of_page(url: &Url, endpoint: &Url) -> Option<Self> {
        let path = url
            .path()
            .strip_prefix(endpoint.path().trim_end_matches('/'))?;
        let mut parts = path.trim_matches('/').splitn(5, '/');
        let (owner, name) = (parts.next()?, parts.next()?);
        let mut repository = Self::parse(&format!("{owner}/{name}")).ok()?;
        // Other kinds of page begin with a word that is no owner of models.
        if ["api", "datasets", "spaces", "docs", "collections"].contains(&owner) {
            return None;
        }
        match (parts.next(), parts.next(), parts.next()) {
            (None, ..) => {}
            (Some("tree"), Some(revision), folder) => {
                repository.revision = Some(decoded(revision)?);
                repository.pattern = folder.and_then(decoded);
            }
            (Some("blob" | "resolve"), Some(revision), Some(file)) => {
                repository.revision = Some(decoded(revision)?);
                repository.pattern = Some(decoded(file)?);
            }
            _ => return None,
        }
        Some(repository)
    }
}

/// What was typed, without query and password.
fn shown(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => {
            format!("{}…{}", &text[..scheme + 3], &text[at..])
        }
        _ => text.to_owned(),
    }
}

/// Whether `pattern` with `*` (any characters, `/` too) and `?` (one character) matches all of `path`.
#[must_use]
pub fn matches(pattern: &str, path: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let path: Vec<char> = path.chars().collect();
    let (mut at, mut seen) = (0, 0);
    // The last `*` and how far it reached: on a mismatch it takes one character more.
    let mut star: Option<(usize, usize)> = None;
    while seen < path.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(&wanted) if wanted == '?' || wanted == path[seen] => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((begin, reached)) = star else {
                    return false;
                };
                star = Some((begin, reached + 1));
                at = begin + 1;
                seen = reached + 1;
            }
        }
    }
    pattern[at..].iter().all(|&rest| rest == '*')
}

/// Whether a path of a repository stays inside the folder it is written to and can't drive a terminal.
#[must_use]
pub fn is_safe_path(path: &str) -> bool {
    path.len() <= 1024
        && path.split('/').all(|part| {
            !part.is_empty()
                && part.len() <= 200
                && part != "."
                && part != ".."
                && !part.chars().any(|c| c.is_control() || c == '\\')
        })
}

/// A file name made of what a server or an address says: letters, digits, `.`, `_`, `-`; none if nothing is left.
#[must_use]
pub fn safe_name(text: &str) -> Option<String> {
    let name: String = text
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '-'
            }
        })
        .take(100)
        .collect();
    let name = name.trim_start_matches(['.', '-']).to_owned();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint() -> Url {
        Url::parse("https://huggingface.co").unwrap()
    }

    fn repository(text: &str) -> Repository {
        match Address::parse(text, &endpoint()) {
            Ok(Address::Repository(repository)) => repository,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_repository_is_read_with_revision_and_pattern() {
        let plain = repository("hf:microsoft/Phi-3-mini-4k-instruct-gguf");
        assert_eq!((plain.owner.as_str(), plain.revision), ("microsoft", None));
        let full = repository("hf:a/b.c@refs%2Fpr%2F1/onnx/*q4*");
        assert_eq!(full.name, "b.c");
        assert_eq!(full.revision.as_deref(), Some("refs/pr/1"));
        assert_eq!(full.pattern.as_deref(), Some("onnx/*q4*"));
        for wrong in [
            "hf:",
            "hf:a",
            "hf:/b",
            "hf:a/",
            "hf:../b",
            "hf:a/b@",
            "hf:a b/c",
            "hf:a/b@%00",
        ] {
            let error = Address::parse(wrong, &endpoint()).unwrap_err();
            assert!(error.to_string().contains("hf:OWNER/REPOSITORY"), "{error}");
        }
    }

    #[test]
    fn what_the_browser_shows_means_the_repository() {
        let page = repository("https://huggingface.co/a/b/blob/main/sub/x%20y.gguf?download=true");
        assert_eq!(page.revision.as_deref(), Some("main"));
        assert_eq!(page.pattern.as_deref(), Some("sub/x y.gguf"));
        assert_eq!(repository("https://huggingface.co/a/b").pattern, None);
        assert_eq!(
            repository("https://huggingface.co/a/b/tree/v1/cpu")
                .pattern
                .as_deref(),
            Some("cpu")
        );
        // Another server's paths mean nothing to us.
        let elsewhere =
            Address::parse("https://example.org/a/b/blob/main/x.gguf", &endpoint()).unwrap();
        assert!(matches!(elsewhere, Address::File(_)));
    }

    #[test]
    fn passwords_and_keys_are_neither_taken_nor_shown() {
        let error =
            Address::parse("https://me:secret@host/x.gguf?key=hidden", &endpoint()).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("--token-file") && !text.contains("secret") && !text.contains("hidden"),
            "{text}"
        );
        let url = Address::parse("https://host/x.gguf?key=hidden", &endpoint()).unwrap();
        assert_eq!(url.to_string(), "https://host/x.gguf");
        for wrong in [
            "ftp://host/x",
            "https://host/",
            "https:///x",
            "file:///etc/passwd",
        ] {
            assert!(Address::parse(wrong, &endpoint()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patterns_match_whole_paths() {
        for (pattern, path, expected) in [
            ("*.gguf", "sub/a.gguf", true),
            ("*Q4_K_M*", "a-Q4_K_M-00001-of-00002.gguf", true),
            ("a?c", "abc", true),
            ("a?c", "abbc", false),
            ("a", "ab", false),
            ("*a*b*a", "xaybza", true),
            ("*a*b*c", "xaybza", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} on {path}");
        }
    }

    #[test]
    fn no_name_leads_out_of_its_folder() {
        for path in [
            "../x",
            "a/../../x",
            "/etc/passwd",
            "a//b",
            "",
            "a/.",
            "a\\b",
            "a\u{1b}[2J",
            "a/\0",
        ] {
            assert!(!is_safe_path(path), "{path:?}");
        }
        assert!(is_safe_path("onnx/model_q4.onnx_data") && is_safe_path(".gitattributes"));
        assert_eq!(safe_name("../../etc/passwd").as_deref(), Some("etc-passwd"));
        assert_eq!(safe_name("..").as_deref(), None);
        assert_eq!(
            safe_name("Modell für alle.gguf").as_deref(),
            Some("Modell-f-r-alle.gguf")
        );
    }
}
