//! The token that a Hugging Face server knows its users by: where it is found, and who may see it.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::HubError;

/// A secret. It is not shown, whatever is printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    secret: String,
    /// Set when others on this machine can read the file it came from: a line to warn with.
    pub warning: Option<String>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// The token in a file.
    ///
    /// # Errors
    /// [`HubError::Token`] if the file can't be read or holds anything but one line of visible ASCII.
    pub fn of_file(path: &Path) -> Result<Self, HubError> {
        let refuse = |reason: String| HubError::Token {
            source_of: path.display().to_string(),
            reason,
        };
        let unreadable = |error: std::io::Error| refuse(error.to_string());
        // Asked before opening: opening a pipe would wait for its writer.
        let metadata = path.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(refuse("it is not a plain file".to_owned()));
        }
        let mut text = Vec::new();
        fs::File::open(path)
            .and_then(|file| file.take(8192).read_to_end(&mut text))
            .map_err(unreadable)?;
        let text = String::from_utf8(text).map_err(|_| refuse("it is not text".to_owned()))?;
        let mut token = Self::of_text(&text).map_err(|reason| refuse(reason.to_owned()))?;
        if metadata.permissions().mode() & 0o077 != 0 {
            token.warning = Some(format!(
                "others on this machine can read the token in {0}: chmod 600 {0}",
                path.display()
            ));
        }
        Ok(token)
    }

    /// # Errors
    /// What is wrong with the text.
    fn of_text(text: &str) -> Result<Self, &'static str> {
        let secret = text.trim();
        match secret.len() {
            0 => Err("it is empty"),
            1..=4096 if secret.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Self {
                secret: secret.to_owned(),
                warning: None,
            }),
            _ => Err("expected one line of letters, digits and signs"),
        }
    }

    /// The token of this user, where huggingface_hub looks for it, too: `HF_TOKEN`, the file `HF_TOKEN_PATH`,
    /// `$HF_HOME/token`, the cache folder. `None` if there is none.
    ///
    /// # Errors
    /// [`HubError::Token`] if there is one that can't be used.
    pub fn of_user(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Option<Self>, HubError> {
        if let Some(value) = variable("HF_TOKEN").filter(|value| !value.is_empty()) {
            return value
                .to_str()
                .ok_or("it is not text")
                .and_then(Self::of_text)
                .map(Some)
                .map_err(|reason| HubError::Token {
                    source_of: "HF_TOKEN".to_owned(),
                    reason: reason.to_owned(),
                });
        }
        if let Some(path) = variable("HF_TOKEN_PATH").filter(|value| !value.is_empty()) {
            return Self::of_file(Path::new(&path)).map(Some);
        }
        let folder = |name: &str| {
            variable(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let path = folder("HF_HOME")
            .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("huggingface")))
            .or_else(|| folder("HOME").map(|home| home.join(".cache/huggingface")))
            .map(|folder| folder.join("token"));
        match path {
            Some(path) if path.is_file() => Self::of_file(&path).map(Some),
            _ => Ok(None),
        }
    }

    /// The value of the `Authorization` header.
    pub(super) fn header(&self) -> String {
        format!("Bearer {}", self.secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_where_other_programs_put_it_and_never_shown() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".cache/huggingface/token");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let found = |pairs: &[(&str, &Path)]| {
            let pairs: Vec<(String, OsString)> = pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.as_os_str().to_owned()))
                .collect();
            Token::of_user(&move |name| {
                pairs
                    .iter()
                    .find(|(known, _)| known == name)
                    .map(|(_, value)| value.clone())
            })
        };
        assert_eq!(found(&[("HOME", home.path())]).unwrap(), None);
        fs::write(&file, "hf_abc\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let token = found(&[("HOME", home.path())]).unwrap().unwrap();
        assert_eq!(token.header(), "Bearer hf_abc");
        assert!(token.warning.as_ref().unwrap().contains("chmod 600"));
        assert!(!format!("{token:?}").contains("hf_abc"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(
            found(&[("HOME", home.path())]).unwrap().unwrap().warning,
            None
        );
        let first = found(&[("HOME", home.path()), ("HF_TOKEN", Path::new("hf_def"))])
            .unwrap()
            .unwrap();
        assert_eq!(first.header(), "Bearer hf_def");
    }

    #[test]
    fn a_file_that_is_no_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        for wrong in ["", "  \n", "two words", "a\nb", "ä", &"x".repeat(5000)] {
            fs::write(&file, wrong).unwrap();
            let error = Token::of_file(&file).unwrap_err().to_string();
            assert!(error.contains("token") && !error.contains('\n'), "{error}");
        }
        assert!(Token::of_file(folder.path()).is_err());
    }
}
