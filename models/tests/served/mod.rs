//! A web server of the tests' own, on this machine: it does what it is told, bad manners included.
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use sha2::{Digest, Sha256};

/// What a client asked.
#[derive(Debug, Clone)]
pub struct Request {
    /// Path and query.
    pub path: String,
    headers: BTreeMap<String, String>,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Where the range asked for begins.
    fn range(&self) -> Option<usize> {
        self.header("range")?
            .strip_prefix("bytes=")?
            .strip_suffix('-')?
            .parse()
            .ok()
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    /// Hang up, or stand still, after that many bytes of the body.
    end: Option<(usize, Manner)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    HangUp,
    StandStill,
}

impl Reply {
    pub fn of(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self {
            status,
            headers: vec![("content-length".to_owned(), body.len().to_string())],
            body,
            end: None,
        }
    }

    /// The same answer with that header, in place of one of the same name.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self = self.without(name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self
    }

    #[must_use]
    pub fn ending(mut self, after: usize, manner: Manner) -> Self {
        self.end = Some((after, manner));
        self
    }

    /// What a well-behaved server answers for a file of that version (RFC 9110, ranges).
    pub fn file(request: &Request, contents: &[u8], tag: &str) -> Self {
        let tag = format!("\"{tag}\"");
        let same = request
            .header("if-range")
            .is_none_or(|wanted| wanted == tag);
        match request.range() {
            Some(from) if same && from >= contents.len() => {
                Self::of(416, "").with("content-range", &format!("bytes */{}", contents.len()))
            }
            Some(from) if same => Self::of(206, &contents[from..]).with(
                "content-range",
                &format!("bytes {from}-{}/{}", contents.len() - 1, contents.len()),
            ),
            _ => Self::of(200, contents),
        }
        .with("etag", &tag)
    }

    pub fn to(location: &str) -> Self {
        Self::of(302, "").with("location", location)
    }

    pub fn json(value: serde_json::Value) -> Self {
        Self::of(200, value.to_string()).with("content-type", "application/json")
    }

    fn write(&self, stream: &mut (impl Read + Write)) -> std::io::Result<()> {
        let mut head = format!("HTTP/1.1 {} Said\r\nconnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        let (length, manner) = self.end.unwrap_or((self.body.len(), Manner::HangUp));
        stream.write_all(&self.body[..length.min(self.body.len())])?;
        stream.flush()?;
        if manner == Manner::StandStill {
            // Until the client gives up.
            let _ = stream.read(&mut [0; 1]);
        }
        Ok(())
    }
}

/// A running server; its threads end with the test's process.
pub struct Server {
    pub port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers with `answer(request, how many came before it)`.
    pub fn start(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with(None, answer)
    }

    /// The same over TLS.
    pub fn start_tls(
        config: Arc<rustls::ServerConfig>,
        answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(Some(config), answer)
    }

    fn start_with(
        tls: Option<Arc<rustls::ServerConfig>>,
        answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, answer, tls) = (Arc::clone(&seen), Arc::clone(&answer), tls.clone());
                thread::spawn(move || match tls {
                    None => serve(stream, &seen, &*answer),
                    Some(config) => {
                        let session =
                            rustls::ServerConnection::new(config).expect("a usable configuration");
                        serve(rustls::StreamOwned::new(session, stream), &seen, &*answer);
                    }
                });
            }
        });
        Self { port, requests }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// What was asked so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests
            .lock()
            .expect("no panic in the server")
            .clone()
    }

    /// How often a path that begins like this was asked for.
    pub fn count(&self, path: &str) -> usize {
        self.requests()
            .iter()
            .filter(|request| request.path.starts_with(path))
            .count()
    }
}

fn serve(
    mut stream: impl Read + Write,
    seen: &Mutex<Vec<Request>>,
    answer: &(impl Fn(&Request, usize) -> Reply + ?Sized),
) {
    let Some(request) = read(&mut stream) else {
        return;
    };
    let before = {
        let mut seen = seen.lock().expect("no panic in the server");
        seen.push(request.clone());
        seen.len() - 1
    };
    // The client may well have hung up.
    let _ = answer(&request, before).write(&mut stream);
}

fn read(stream: &mut impl Read) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    for line in lines {
        let line = line.ok()?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    Some(Request { path, headers })
}

/// Contents that differ from place to place.
pub fn contents(length: u32) -> Vec<u8> {
    (0..length)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
