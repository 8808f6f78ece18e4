//! The only part that talks to the network: one GET, its redirects, and what the answer's status means.
//!
//! Redirects are followed here rather than by the HTTP crate: at each step it is decided anew whether the token may
//! go along (only to the server it is for, and only where nobody can listen), and none leads out of https.

use std::ffi::OsString;
use std::io::{self, Read};
use std::time::Duration;

use ureq::http::{HeaderMap, Response};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body, Proxy};

use super::{HubError, Token, Url};

/// How long a server may take, and how often it is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// Without a single byte.
    pub stall: Duration,
    /// Tries in a row without progress, at least 1.
    pub tries: u32,
    /// Before the second try; doubled for each one after it.
    pub pause: Duration,
    /// The longest pause, whatever the server asks for.
    pub longest_pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(20),
            stall: Duration::from_secs(30),
            tries: 5,
            pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
        }
    }
}

/// What the environment says about the network.
#[derive(Debug, Clone)]
pub struct Surroundings {
    /// The Hugging Face server: `HF_ENDPOINT`, else `https://huggingface.co`.
    pub endpoint: Url,
    https_proxy: Option<Proxy>,
    http_proxy: Option<Proxy>,
    no_proxy: Vec<String>,
}

impl Surroundings {
    /// Reads `HF_ENDPOINT`, `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` (or in small letters). Which
    /// certificates are trusted, the system says, or `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    ///
    /// # Errors
    /// [`HubError::Address`] for an endpoint or a proxy that is no address.
    pub fn read(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, HubError> {
        let text = |name: &str| {
            variable(name)
                .and_then(|value| value.into_string().ok())
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let either = |name: &str| text(&name.to_ascii_lowercase()).or_else(|| text(name));
        let proxy = |name: &str| match either(name).or_else(|| either("ALL_PROXY")) {
            None => Ok(None),
            // Not repeated: a password may stand in it.
            Some(address) => Proxy::new(&address)
                .map(Some)
                .map_err(|_| HubError::Address {
                    address: name.to_owned(),
                    reason: "the proxy it names is no address (expected http://HOST:PORT)",
                }),
        };
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
        Ok(Self {
            endpoint: Url::parse(&endpoint).map_err(|reason| HubError::Address {
                address: "HF_ENDPOINT".to_owned(),
                reason,
            })?,
            https_proxy: proxy("HTTPS_PROXY")?,
            http_proxy: proxy("HTTP_PROXY")?,
            no_proxy: either("NO_PROXY")
                .unwrap_or_default()
                .split([',', ' '])
                .map(|host| host.trim().to_ascii_lowercase())
                .filter(|host| !host.is_empty())
                .collect(),
        })
    }

    fn proxy_for(&self, url: &Url) -> Option<&Proxy> {
        let direct = self.no_proxy.iter().any(|pattern| {
            let domain = pattern.trim_start_matches('*').trim_start_matches('.');
            pattern == "*"
                || url.host() == domain
                || (!domain.is_empty()
                    && url
                        .host()
                        .strip_suffix(domain)
                        .is_some_and(|rest| rest.ends_with('.')))
        });
        match (direct, url.https) {
            (true, _) => None,
            (false, true) => self.https_proxy.as_ref(),
            (false, false) => self.http_proxy.as_ref(),
        }
    }
}

/// An error, and whether trying again may help.
#[derive(Debug)]
pub(super) struct Trouble {
    pub error: HubError,
    pub passing: bool,
    /// When the server wants to be asked again.
    pub after: Option<Duration>,
}

impl Trouble {
    pub fn passing(error: HubError) -> Self {
        Self {
            error,
            passing: true,
            after: None,
        }
    }
}

impl From<HubError> for Trouble {
    fn from(error: HubError) -> Self {
        Self {
            error,
            passing: false,
            after: None,
        }
    }
}

/// An answer whose body is still to be read.
pub(super) struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// SHA-256 that a Hugging Face server names on the way (`X-Linked-Etag`), if it is one.
    pub linked: Option<String>,
    pub body: Body,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Asks servers, with a token for one of them.
#[derive(Debug)]
pub struct Client {
    surroundings: Surroundings,
    patience: Patience,
    direct: Agent,
    token: Option<(Token, Url)>,
}

/// More redirects than any server of good will needs.
const REDIRECTS: u32 = 10;

impl Client {
    /// A client; `token` goes to the server of that address only.
    #[must_use]
    pub fn new(
        surroundings: Surroundings,
        patience: Patience,
        token: Option<(Token, Url)>,
    ) -> Self {
        Self {
            direct: agent(&patience, None),
            surroundings,
            patience,
            token,
        }
    }

    /// The Hugging Face server.
    #[must_use]
    pub fn endpoint(&self) -> &Url {
        &self.surroundings.endpoint
    }

    pub(super) fn patience(&self) -> Patience {
        self.patience
    }

    /// One GET with its redirects. Statuses that mean a failure are errors already.
    pub(super) fn get(&self, url: &Url, headers: &[(&str, &str)]) -> Result<Answer, Trouble> {
        let mut at = url.clone();
        let mut linked = None;
        for _ in 0..=REDIRECTS {
            let response = self.ask(&at, headers)?;
            let status = response.status().as_u16();
            if linked.is_none() {
                linked = header(response.headers(), "x-linked-etag")
                    .map(|tag| tag.trim_matches('"').to_ascii_lowercase())
                    .filter(|tag| is_sha256(tag));
            }
            if !matches!(status, 301 | 302 | 303 | 307 | 308) {
                let (parts, body) = response.into_parts();
                self.judge(status, &parts.headers, &at)?;
                return Ok(Answer {
                    status,
                    headers: parts.headers,
                    linked,
                    body,
                });
            }
            let refuse = |reason: String| HubError::Redirect {
                url: url.shown(),
                reason,
            };
            let location = header(response.headers(), "location")
                .ok_or_else(|| refuse("without saying where to".to_owned()))?;
            let next = at
                .join(location)
                .map_err(|reason| refuse(format!("to no address: {reason}")))?;
            if !next.https && (at.https || !(next.is_loopback() || next.origin() == url.origin())) {
                return Err(refuse(format!(
                    "to plain http at {}: expected https",
                    next.authority()
                ))
                .into());
            }
            at = next;
        }
        Err(HubError::Redirect {
            url: url.shown(),
            reason: format!("more than {REDIRECTS} times"),
        }
        .into())
    }

    /// A small JSON document and the address in its `Link: <…>; rel="next"`.
    pub(super) fn json(&self, url: &Url) -> Result<(serde_json::Value, Option<Url>), Trouble> {
        const LONGEST: u64 = 32 << 20;
        let answer = self.get(url, &[("accept", "application/json")])?;
        let nonsense = |reason: String| HubError::Nonsense {
            url: url.shown(),
            reason,
        };
        let next = match answer.header("link").and_then(next_page) {
            None => None,
            Some(link) => Some(
                url.join(link)
                    .map_err(|reason| nonsense(reason.to_owned()))?,
            ),
        };
        let mut text = Vec::new();
        answer
            .body
            .into_reader()
            .take(LONGEST + 1)
            .read_to_end(&mut text)
            .map_err(|error| {
                Trouble::passing(HubError::Unreachable {
                    host: url.authority(),
                    reason: reason(&error),
                })
            })?;
        if text.len() as u64 > LONGEST {
            return Err(nonsense(format!("it is longer than {LONGEST} bytes")).into());
        }
        let value = serde_json::from_slice(&text).map_err(|error| nonsense(error.to_string()))?;
        Ok((value, next))
    }

    fn ask(&self, at: &Url, headers: &[(&str, &str)]) -> Result<Response<Body>, Trouble> {
        let proxied = self
            .surroundings
            .proxy_for(at)
            .map(|proxy| agent(&self.patience, Some(proxy.clone())));
        let mut request = proxied.as_ref().unwrap_or(&self.direct).get(at.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = self.token_for(at) {
            request = request.header("authorization", token.header());
        }
        request.call().map_err(|error| self.trouble(error, at))
    }

    fn token_for(&self, at: &Url) -> Option<&Token> {
        self.token
            .as_ref()
            .filter(|(_, owner)| owner.origin() == at.origin() && (at.https || at.is_loopback()))
            .map(|(token, _)| token)
    }

    fn trouble(&self, error: ureq::Error, at: &Url) -> Trouble {
        let host = at.authority();
        let certificate = |reason: String| {
            Trouble::from(HubError::Certificate {
                host: host.clone(),
                reason,
            })
        };
        match error {
            ureq::Error::Rustls(error) => certificate(error.to_string()),
            ureq::Error::Tls(reason) => certificate(reason.to_owned()),
            // rustls's errors arrive as errors of reading, too.
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
                certificate(error.to_string())
            }
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => HubError::Address {
                address: at.shown(),
                reason: "it is not written as an address is",
            }
            .into(),
            ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => HubError::Nonsense {
                url: at.shown(),
                reason: error.to_string(),
            }
            .into(),
            other => Trouble::passing(HubError::Unreachable {
                host,
                reason: reason(&other.into_io()),
            }),
        }
    }

    /// What a status means.
    fn judge(&self, status: u16, headers: &HeaderMap, at: &Url) -> Result<(), Trouble> {
        let url = at.shown();
        let code = header(headers, "x-error-code").unwrap_or_default();
        let error = match (status, code) {
            (200 | 206 | 304 | 416, _) => return Ok(()),
            (401 | 403, "GatedRepo") => HubError::Gated {
                repository: url.clone(),
                page: at.below(&[], None).shown(),
            },
            (401 | 403, _) => HubError::Denied {
                url,
                status,
                with_token: self.token_for(at).is_some(),
            },
            (404 | 410, _) => HubError::NotFound {
                url,
                what: match code {
                    "RepoNotFound" => "repository",
                    "RevisionNotFound" => "revision",
                    _ => "file",
                },
                status,
            },
            (408 | 425 | 429 | 500..=599, _) => {
                return Err(Trouble {
                    error: HubError::Busy {
                        url,
                        status,
                        tries: self.patience.tries,
                    },
                    passing: true,
                    after: header(headers, "retry-after")
                        .and_then(|seconds| seconds.trim().parse().ok())
                        .map(Duration::from_secs),
                });
            }
            _ => HubError::Status { url, status },
        };
        Err(error.into())
    }
}

fn agent(patience: &Patience, proxy: Option<Proxy>) -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(proxy)
        .tls_config(
            TlsConfig::builder()
                .root_certs(RootCerts::PlatformVerifier)
                .build(),
        )
        .timeout_resolve(Some(patience.connect))
        .timeout_connect(Some(patience.connect))
        .timeout_per_read(Some(patience.stall))
        .timeout_per_write(Some(patience.stall))
        // A compressed answer could not be resumed.
        .accept_encoding("identity")
        .user_agent(concat!("firstword/", env!("CARGO_PKG_VERSION")))
        .build()
        .new_agent()
}

/// What the system or the HTTP crate says, without the crate's prefixes.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.trim_start_matches("io: ");
    if text.starts_with("timeout") {
        return "nothing came for too long".to_owned();
    }
    text.to_owned()
}

pub(super) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The target of `rel="next"` in a `Link` header (RFC 8288).
fn next_page(link: &str) -> Option<&str> {
    link.split(',').find_map(|one| {
        let (target, attributes) = one.trim().strip_prefix('<')?.split_once('>')?;
        attributes
            .split(';')
            .any(|attribute| matches!(attribute.trim(), "rel=\"next\"" | "rel=next"))
            .then_some(target)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_among_links() {
        // The second form is RFC 8288's own example, section 3.5, shortened.
        assert_eq!(
            next_page("<https://h/a?cursor=b%2Cc>; rel=\"next\""),
            Some("https://h/a?cursor=b%2Cc")
        );
        assert_eq!(
            next_page("</chapter2>; rel=\"previous\", </chapter4>; rel=\"next\""),
            Some("/chapter4")
        );
        assert_eq!(next_page("</chapter2>; rel=\"previous\""), None);
    }

    #[test]
    fn hosts_named_in_no_proxy_are_asked_directly() {
        let pairs = [
            ("https_proxy", "http://proxy:3128"),
            ("NO_PROXY", "localhost, .lan,example.org"),
        ];
        let surroundings = Surroundings::read(&|name| {
            pairs
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).into())
        })
        .unwrap();
        let proxied = |url: &str| surroundings.proxy_for(&Url::parse(url).unwrap()).is_some();
        assert!(proxied("https://huggingface.co/x"));
        assert!(
            !proxied("http://huggingface.co/x"),
            "HTTPS_PROXY is for https"
        );
        for direct in [
            "https://localhost/x",
            "https://box.lan/x",
            "https://example.org",
            "https://a.example.org",
        ] {
            assert!(!proxied(direct), "{direct}");
        }
        assert!(proxied("https://notexample.org/x"));
    }

    #[test]
    fn a_proxy_that_is_no_address_is_refused_without_repeating_it() {
        let error =
            Surroundings::read(&|name| (name == "HTTPS_PROXY").then(|| "gopher://me:pw@x".into()))
                .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("HTTPS_PROXY") && !text.contains("pw"),
            "{text}"
        );
    }
}
