//! Addresses on the web: read, joined with redirects, shown without what is secret in them.

use std::fmt;
use std::net::IpAddr;

use ureq::http::Uri;

/// An `http` or `https` address without user name or fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether it is https.
    pub https: bool,
    host: String,
    port: u16,
    path: String,
    query: Option<String>,
}

impl Url {
    /// Reads an address.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text
            .parse()
            .map_err(|_| "it is not written as an address is")?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("only https and http are known"),
        };
        let authority = uri.authority().ok_or("it names no server")?;
        if authority.as_str().contains('@') {
            return Err("a password does not belong in an address (use --token-file FILE)");
        }
        let host = authority.host().to_ascii_lowercase();
        if host.is_empty() {
            return Err("it names no server");
        }
        Ok(Self {
            https,
            host,
            port: authority.port_u16().unwrap_or(if https { 443 } else { 80 }),
            path: uri.path().to_owned(),
            query: uri.query().map(str::to_owned),
        })
    }

    /// Where a `Location` or `Link` on the page of this address leads.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn join(&self, location: &str) -> Result<Self, &'static str> {
        let scheme = location.find("://").map(|end| &location[..end]);
        if scheme.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric())) {
            return Self::parse(location);
        }
        let base = self.base();
        if location.starts_with("//") {
            let scheme = if self.https { "https:" } else { "http:" };
            return Self::parse(&format!("{scheme}{location}"));
        }
        if location.starts_with('/') {
            return Self::parse(&format!("{base}{location}"));
        }
        if location.starts_with('?') {
            return Self::parse(&format!("{base}{}{location}", self.path));
        }
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        Self::parse(&format!("{base}{folder}/{location}"))
    }

    /// The address of `path` (segments encoded here) below this one, with a query.
    #[must_use]
    pub fn below(&self, segments: &[&str], query: Option<&str>) -> Self {
        let mut path = self.path.trim_end_matches('/').to_owned();
        for segment in segments {
            path.push('/');
            path.push_str(&encoded(segment));
        }
        Self {
            path,
            query: query.map(str::to_owned),
            ..self.clone()
        }
    }

    /// The path, encoded, from its first `/` on.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Scheme, host and port: what a token is for.
    #[must_use]
    pub fn origin(&self) -> (bool, &str, u16) {
        (self.https, &self.host, self.port)
    }

    /// The host, with the port where it is not the usual one.
    #[must_use]
    pub fn authority(&self) -> String {
        let usual = if self.https { 443 } else { 80 };
        if self.port == usual {
            self.host.clone()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// The host alone.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether it is this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        bare == "localhost"
            || bare
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    }

    /// The last part of the path, decoded.
    #[must_use]
    pub fn file_name(&self) -> Option<String> {
        let last = self.path.rsplit('/').next().unwrap_or_default();
        decoded(last).filter(|name| !name.is_empty())
    }

    /// The address without its query: that is where keys are kept.
    #[must_use]
    pub fn shown(&self) -> String {
        format!("{}{}", self.base(), self.path)
    }

    fn base(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }
}

impl fmt::Display for Url {
    /// All of it, as it is sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())?;
        match &self.query {
            Some(query) => write!(f, "?{query}"),
            None => Ok(()),
        }
    }
}

/// A segment of a path, encoded (RFC 3986, section 2); `/` inside it as well.
fn encoded(segment: &str) -> String {
    use fmt::Write;
    segment.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

/// A part of an address, decoded; `None` if that is not text.
pub(super) fn decoded(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes
            .get(at + 1..at + 3)
            .and_then(|pair| std::str::from_utf8(pair).ok());
        match (
            bytes[at],
            digits.and_then(|pair| u8::from_str_radix(pair, 16).ok()),
        ) {
            (b'%', Some(byte)) => {
                plain.push(byte);
                at += 3;
            }
            (byte, _) => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(plain).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_joined_as_browsers_do() {
        let base = Url::parse("https://host:8443/a/b?q=1").unwrap();
        let joined = |location: &str| base.join(location).unwrap().to_string();
        assert_eq!(joined("http://other/x?y"), "http://other/x?y");
        assert_eq!(joined("//other/x"), "https://other/x");
        assert_eq!(joined("/x"), "https://host:8443/x");
        assert_eq!(
            joined("c?u=https://z"),
            "https://host:8443/a/c?u=https://z".to_owned()
        );
    }
}
