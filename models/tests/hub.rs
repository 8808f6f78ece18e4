//! Downloads from a server that cuts, stands still, sends on and lies. It runs in this process; no network is needed.

mod served;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use firstword_models::hub::transfer::Attended;
use firstword_models::hub::{
    Address, Download, Downloaded, Got, HubError, Patience, Progress, Surroundings, Token,
};
use firstword_models::{Store, StoreError};
use served::{Manner, Reply, Server, contents, sha256};
use tempfile::TempDir;

const LENGTH: u32 = 600_000;

/// A client with a store of its own, in a hurry.
struct Client {
    home: TempDir,
    endpoint: String,
    user: Option<Token>,
    patience: Patience,
}

impl Client {
    fn new() -> Self {
        Self {
            home: tempfile::tempdir().expect("a good address, a writable folder"),
            endpoint: "https://hub.invalid".to_owned(),
            user: None,
            patience: Patience {
                connect: Duration::from_secs(10),
                stall: Duration::from_secs(10),
                tries: 3,
                pause: Duration::ZERO,
                longest_pause: Duration::ZERO,
            },
        }
    }

    /// A client of that Hugging Face server, with a token for it.
    fn of(server: &Server) -> Self {
        let client = Self::new();
        let file = client.home.path().join("secret");
        fs::write(&file, "hf_secret").expect("a good address, a writable folder");
        Self {
            endpoint: server.url(""),
            user: Some(Token::of_file(&file).expect("a good address, a writable folder")),
            ..client
        }
    }

    fn store(&self) -> Store {
        Store::new(self.home.path().join("store"))
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings::read(&|name| (name == "HF_ENDPOINT").then(|| self.endpoint.clone().into()))
            .expect("a good address, a writable folder")
    }

    fn wanting(&self, address: &str) -> Download {
        Download {
            address: Address::parse(address, &self.surroundings().endpoint)
                .expect("a good address, a writable folder"),
            name: None,
            sha256: None,
            token: None,
            offline: false,
        }
    }

    fn run(&self, download: &Download) -> Result<(Downloaded, Got), HubError> {
        self.run_until(download, &|| false, &mut Vec::new())
    }

    fn run_until(
        &self,
        download: &Download,
        stop: &dyn Fn() -> bool,
        told: &mut Vec<String>,
    ) -> Result<(Downloaded, Got), HubError> {
        let mut attended = Attended {
            tell: &mut |step: Progress<'_>| {
                if !matches!(step, Progress::Receiving { .. }) {
                    told.push(format!("{step:?}"));
                }
            },
            stop,
        };
        self.store().download(
            download,
            &self.surroundings(),
            self.patience,
            self.user.clone(),
            &mut attended,
        )
    }

    fn pull(&self, address: &str) -> Result<(Downloaded, Got), HubError> {
        self.run(&self.wanting(address))
    }

    fn partial_files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.home.path().join("store/tmp/partial")];
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.components().any(|part| part.as_os_str() == "files") {
                    found.push(path);
                }
            }
        }
        found
    }

    fn assert_nothing_in_place(&self) {
        assert!(self.store().downloads().is_empty());
    }
}

/// One line that says `parts` and no secret.
fn assert_says(error: &HubError, parts: &[&str]) {
    let text = error.to_string();
    assert!(
        !text.contains('\n') && !text.contains("hf_secret"),
        "{text}"
    );
    for part in parts {
        assert!(text.contains(part), "'{part}' is not in: {text}");
    }
}

#[test]
fn a_file_comes_whole_is_noted_and_can_be_used_by_name() {
    let server = Server::start(|request, _| Reply::file(request, &contents(LENGTH), "v1"));
    let client = Client::new();
    let (found, got) = client
        .pull(&server.url("/models/tiny%20one.gguf?key=1"))
        .unwrap();
    assert_eq!((found.name.as_str(), got), ("tiny-one", Got::Fetched));
    assert_eq!(fs::read(found.gguf().unwrap()).unwrap(), contents(LENGTH));
    assert_eq!(server.requests()[0].path, "/models/tiny%20one.gguf?key=1");
    assert!(client.partial_files().is_empty());

    let note = fs::read_to_string(found.path.join("download.json")).unwrap();
    assert!(
        note.contains(&sha256(&contents(LENGTH))) && !note.contains("key="),
        "{note}"
    );
    let store = client.store();
    assert_eq!(store.resolve("tiny-one").unwrap().path, found.path);
    assert_eq!(store.downloads()[0].0.bytes, u64::from(LENGTH));
    store.verify_download("tiny-one").unwrap();
    assert!(matches!(
        store.resolve("tiny-two"),
        Err(StoreError::Unknown { .. })
    ));

    let mut damaged = contents(LENGTH);
    damaged[77] ^= 1;
    fs::write(found.gguf().unwrap(), damaged).unwrap();
    assert_says(
        &store.verify_download("tiny-one").unwrap_err(),
        &["damaged", "SHA-256"],
    );
    assert!(store.resolve("tiny-one").is_err());
    // The same command mends it.
    assert_eq!(
        client
            .pull(&server.url("/models/tiny%20one.gguf?key=2"))
            .unwrap()
            .1,
        Got::Replaced
    );
    store.verify_download("tiny-one").unwrap();
}

#[test]
fn a_connection_that_is_cut_is_gone_on_with_where_it_ended() {
    let server = Server::start(|request, before| {
        let reply = Reply::file(request, &contents(LENGTH), "v1");
        if before < 2 {
            reply.ending(200_000, Manner::HangUp)
        } else {
            reply
        }
    });
    let client = Client::new();
    let (found, _) = client.pull(&server.url("/a.gguf")).unwrap();
    assert_eq!(fs::read(found.gguf().unwrap()).unwrap(), contents(LENGTH));
    let asked: Vec<_> = server
        .requests()
        .iter()
        .map(|request| {
            (
                request.header("range").map(str::to_owned),
                request.header("if-range").map(str::to_owned),
            )
        })
        .collect();
    let tag = || Some("\"v1\"".to_owned());
    assert_eq!(
        asked,
        [
            (None, None),
            (Some("bytes=200000-".to_owned()), tag()),
            (Some("bytes=400000-".to_owned()), tag())
        ]
    );
}

#[test]
fn what_was_stopped_is_kept_and_gone_on_with_by_the_next_command() {
    let server = Server::start(|request, before| {
        let reply = Reply::file(request, &contents(LENGTH), "v1");
        if before == 0 {
            reply.ending(300_000, Manner::StandStill)
        } else {
            reply
        }
    });
    let client = Client {
        patience: Patience {
            stall: Duration::from_millis(300),
            ..Client::new().patience
        },
        ..Client::new()
    };
    let download = client.wanting(&server.url("/a.gguf"));
    // Ctrl-C: noticed between two reads, the second of which finds that nothing comes any more.
    let looks = AtomicUsize::new(0);
    let stop = || looks.fetch_add(1, Ordering::Relaxed) > 0 && !client.partial_files().is_empty();
    let error = client
        .run_until(&download, &stop, &mut Vec::new())
        .unwrap_err();
    assert!(matches!(error, HubError::Stopped), "{error:?}");
    client.assert_nothing_in_place();
    assert_eq!(client.partial_files().len(), 1);

    // A pull of something else does not sweep it away.
    let other = client
        .store()
        .pull(&["no-such"], &Default::default(), &mut |_| {});
    assert!(other.is_err());
    let here = client.partial_files()[0].metadata().unwrap().len();
    let (found, _) = client.run(&download).unwrap();
    assert_eq!(fs::read(found.gguf().unwrap()).unwrap(), contents(LENGTH));
    let last = server
        .requests()
        .last()
        .unwrap()
        .header("range")
        .map(str::to_owned);
    assert_eq!(last, (here > 0).then(|| format!("bytes={here}-")));
}

#[test]
fn a_server_that_stands_still_is_left_after_as_many_tries_as_promised() {
    let server = Server::start(|request, _| {
        Reply::file(request, &contents(LENGTH), "v1").ending(1000, Manner::StandStill)
    });
    let client = Client {
        patience: Patience {
            stall: Duration::from_millis(200),
            ..Client::new().patience
        },
        ..Client::new()
    };
    let error = client.pull(&server.url("/a.gguf")).unwrap_err();
    assert!(matches!(error, HubError::Cut { .. }), "{error:?}");
    assert_says(
        &error,
        &[
            "/a.gguf",
            "nothing came for too long",
            "run the command again",
        ],
    );
    assert_eq!(server.requests().len(), 3);
    client.assert_nothing_in_place();
}

#[test]
fn a_server_that_ignores_ranges_or_has_another_file_now_is_begun_anew() {
    // Three ways not to go on: the whole file again, another version, a range from elsewhere.
    let ways: [fn(&served::Request) -> Reply; 3] = [
        |_| Reply::of(200, contents(LENGTH)),
        |request| Reply::file(request, &contents(LENGTH), "v2"),
        |request| match request.header("range") {
            Some(_) => Reply::of(206, &contents(LENGTH)[100..])
                .with("content-range", "bytes 100-599999/600000"),
            None => Reply::file(request, &contents(LENGTH), "v2"),
        },
    ];
    for (index, way) in ways.into_iter().enumerate() {
        let mut old = contents(LENGTH);
        old[5] ^= 1;
        let server = Server::start(move |request, before| {
            if before == 0 {
                Reply::file(request, &old, "v1").ending(250_000, Manner::HangUp)
            } else {
                way(request)
            }
        });
        let client = Client::new();
        let mut told = Vec::new();
        let download = client.wanting(&server.url("/a.gguf"));
        let (found, _) = client.run_until(&download, &|| false, &mut told).unwrap();
        assert_eq!(
            fs::read(found.gguf().unwrap()).unwrap(),
            contents(LENGTH),
            "way {index}"
        );
        assert!(
            told.iter().any(|step| step.starts_with("Anew")),
            "way {index}: {told:?}"
        );
    }
}

#[test]
fn a_file_that_is_not_the_one_is_refused_and_nothing_of_it_is_kept() {
    let server = Server::start(|request, _| Reply::file(request, &contents(LENGTH), "v1"));
    let client = Client::new();
    let mut download = client.wanting(&server.url("/a.gguf"));
    download.sha256 = Some("0".repeat(64));
    let error = client.run(&download).unwrap_err();
    assert!(matches!(error, HubError::WrongHash { .. }), "{error:?}");
    assert_says(&error, &[&"0".repeat(64), &sha256(&contents(LENGTH))]);
    assert_eq!(
        server.requests().len(),
        1,
        "a wrong file is not fetched twice"
    );
    client.assert_nothing_in_place();
    assert!(client.partial_files().is_empty());

    download.sha256 = Some("12".to_owned());
    assert_says(
        &client.run(&download).unwrap_err(),
        &["64 hexadecimal digits"],
    );
    download.sha256 = Some(sha256(&contents(LENGTH)).to_uppercase());
    client.run(&download).unwrap();
    // Known by its sum: nothing is asked again.
    assert_eq!(client.run(&download).unwrap().1, Got::AlreadyThere);
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_part_of_another_file_does_not_spoil_the_whole() {
    // Without ETag or date a range can't be tied to a version; the sum tells that the first part was another file's.
    let mut old = contents(LENGTH);
    old[5] ^= 1;
    let server = Server::start(move |request, before| {
        let contents = if before == 0 {
            old.clone()
        } else {
            contents(LENGTH)
        };
        let reply = Reply::file(request, &contents, "").without("etag");
        if before == 0 {
            reply.ending(250_000, Manner::HangUp)
        } else {
            reply
        }
    });
    let client = Client::new();
    let mut download = client.wanting(&server.url("/a.gguf"));
    download.sha256 = Some(sha256(&contents(LENGTH)));
    let (found, _) = client.run(&download).unwrap();
    assert_eq!(fs::read(found.gguf().unwrap()).unwrap(), contents(LENGTH));
    let ranges: Vec<bool> = server
        .requests()
        .iter()
        .map(|request| request.header("range").is_some())
        .collect();
    assert_eq!(ranges, [false, true, false]);
}

#[test]
fn answers_that_are_no_file_are_told_apart() {
    let page = Reply::of(200, "<html>").with("content-type", "text/html; charset=utf-8");
    let endless = Reply::of(200, "abc").without("content-length");
    let packed = Reply::of(200, "abc").with("content-encoding", "gzip");
    let part = Reply::of(206, "abc").with("content-range", "bytes 0-2/9");
    let number = Reply::of(200, "abc").with("etag", "\"x\"");
    for (reply, part) in [
        (page, "web page"),
        (endless, "how long"),
        (packed, "compressed"),
        (part, "a part"),
        (Reply::of(204, "").without("content-length"), "204"),
        (Reply::of(302, ""), "without saying where"),
        (Reply::to("gopher://x/"), "to no address"),
        (Reply::to("http://example.invalid/x"), "plain http"),
    ] {
        let server = Server::start(move |_, _| reply.clone());
        let client = Client::new();
        assert_says(&client.pull(&server.url("/a.gguf")).unwrap_err(), &[part]);
        assert_eq!(server.requests().len(), 1, "{part}");
        client.assert_nothing_in_place();
    }
    let server = Server::start(move |_, _| number.clone());
    assert_eq!(
        Client::new().pull(&server.url("/a.gguf")).unwrap().0.bytes,
        3
    );
}

#[test]
fn statuses_say_what_to_do_and_only_passing_ones_are_tried_again() {
    for (status, code, parts, tries) in [
        (401, "", &["wants a token"][..], 1),
        (403, "", &["403"], 1),
        (404, "", &["no such file"], 1),
        (418, "", &["418"], 1),
        (403, "GatedRepo", &["gated"], 1),
        (429, "", &["busy", "429"], 3),
        (500, "", &["busy", "500"], 3),
        (503, "", &["503", "3 times"], 3),
    ] {
        let server = Server::start(move |_, _| Reply::of(status, "no").with("x-error-code", code));
        assert_says(
            &Client::new().pull(&server.url("/a.gguf")).unwrap_err(),
            parts,
        );
        assert_eq!(server.requests().len(), tries, "{status}");
    }
    let server = Server::start(|request, before| match before {
        0 => Reply::of(429, "wait").with("retry-after", "1"),
        1 => Reply::of(503, "wait"),
        _ => Reply::file(request, b"abc", "v1"),
    });
    Client::new().pull(&server.url("/a.gguf")).unwrap();
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn circles_of_redirects_end() {
    let server = Server::start(|request, _| Reply::to(&format!("{}x", request.path)));
    let error = Client::new().pull(&server.url("/a.gguf")).unwrap_err();
    assert_says(&error, &["sends on more than 10 times"]);
    assert_eq!(server.requests().len(), 11);
}

#[test]
fn a_token_goes_to_its_server_and_to_no_other() {
    let elsewhere = Arc::new(Server::start(|request, _| {
        Reply::file(request, &contents(LENGTH), "v1")
    }));
    let port = elsewhere.port;
    let server = Server::start(move |request, _| match request.path.as_str() {
        "/a.gguf" => Reply::to("/b.gguf"),
        _ => Reply::to(&format!("http://127.0.0.1:{port}/c.gguf")),
    });
    let client = Client::of(&server);
    let mut download = client.wanting(&server.url("/a.gguf"));
    download.token = client.user.clone();
    client.run(&download).unwrap();
    for request in server.requests() {
        assert_eq!(
            request.header("authorization"),
            Some("Bearer hf_secret"),
            "{request:?}"
        );
    }
    assert_eq!(elsewhere.requests().len(), 1);
    assert_eq!(elsewhere.requests()[0].header("authorization"), None);

    // Where others can listen it is not sent at all, and nothing is asked.
    let mut open = client.wanting("http://hub.invalid/b.gguf");
    assert_says(&client.run(&open).unwrap_err(), &["plain http", "--sha256"]);
    open.token = client.user.clone();
    assert_says(&client.run(&open).unwrap_err(), &["token", "plain http"]);
}

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A Hugging Face server with one repository: its list comes in two pages.
fn hub(request: &served::Request, gguf: &[u8], claimed: &str) -> Reply {
    let tree = format!("/api/models/o/r/tree/{COMMIT}?recursive=true");
    let small = |path: &str, text: &str| serde_json::json!({"type": "file", "path": path, "size": text.len(), "oid": "0"});
    match request.path.as_str() {
        "/api/models/o/r/revision/main" | "/api/models/o/r/revision/v%2F1" => {
            Reply::json(serde_json::json!({"sha": COMMIT, "cardData": {"license": "mit"}}))
        }
        path if path == tree => Reply::json(serde_json::json!([
            {"type": "directory", "path": "sub", "oid": "0", "size": 0},
            small("LICENSE", "MIT"),
            small("README.md", "# r"),
        ]))
        .with("link", &format!("<{tree}&cursor=2>; rel=\"next\"")),
        path if path == format!("{tree}&cursor=2") => Reply::json(serde_json::json!([{
            "type": "file", "path": "sub/tiny q4.gguf", "size": gguf.len(), "oid": "0",
            "lfs": {"oid": claimed, "size": gguf.len(), "pointerSize": 134},
        }])),
        path if path == format!("/o/r/resolve/{COMMIT}/LICENSE") => {
            Reply::file(request, b"MIT", "l")
        }
        path if path == format!("/o/r/resolve/{COMMIT}/sub/tiny%20q4.gguf") => {
            Reply::to("/cdn/blob").with("x-linked-etag", &format!("\"{claimed}\""))
        }
        "/cdn/blob" => Reply::file(request, gguf, "blob"),
        _ => Reply::of(404, "").with("x-error-code", "RepoNotFound"),
    }
}

#[test]
fn a_repository_gives_its_model_at_one_commit_checked_against_its_sums() {
    let server = Server::start(|request, _| {
        let gguf = contents(LENGTH);
        hub(request, &gguf, &sha256(&gguf))
    });
    let client = Client::of(&server);
    let (found, got) = client.pull("hf:o/r").unwrap();
    assert_eq!(
        (found.name.as_str(), got, found.licence.as_deref()),
        ("r", Got::Fetched, Some("mit"))
    );
    assert_eq!(found.files, ["sub/tiny q4.gguf", "LICENSE"]);
    assert_eq!(fs::read(found.gguf().unwrap()).unwrap(), contents(LENGTH));
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.header("authorization") == Some("Bearer hf_secret"))
    );
    let note: serde_json::Value =
        serde_json::from_slice(&fs::read(found.path.join("download.json")).unwrap()).unwrap();
    assert_eq!(note["version"], COMMIT);
    assert_eq!(
        (&note["files"][0]["checked"], &note["files"][1]["checked"]),
        (&true.into(), &false.into())
    );

    // The same commit again: only asked for, nothing fetched.
    let files = server.count("/o/r/resolve");
    assert_eq!(client.pull("hf:o/r").unwrap().1, Got::AlreadyThere);
    assert_eq!(server.count("/o/r/resolve"), files);
    // Something else under the same name is refused; without network what is here will do.
    assert_says(
        &client.pull("hf:o/r@v%2F1").unwrap_err(),
        &["here already, from hf:o/r", "--as"],
    );
    let offline = Download {
        offline: true,
        ..client.wanting("hf:o/r")
    };
    let asked = server.requests().len();
    assert_eq!(client.run(&offline).unwrap().1, Got::AlreadyThere);
    assert_eq!(server.requests().len(), asked);
    // What the browser shows is the same file.
    let mut page = client.wanting(&server.url("/o/r/blob/main/sub/tiny%20q4.gguf"));
    page.name = Some("again".to_owned());
    assert_eq!(client.run(&page).unwrap().0.name, "again");
}

#[test]
fn a_repository_whose_file_is_not_what_its_list_says_is_refused() {
    let server = Server::start(|request, _| hub(request, &contents(LENGTH), &"ab".repeat(32)));
    let client = Client::of(&server);
    let error = client.pull("hf:o/r").unwrap_err();
    assert_says(
        &error,
        &["SHA-256 expected abab", &sha256(&contents(LENGTH))],
    );
    client.assert_nothing_in_place();

    let server = Server::start(|request, _| match request.path.as_str() {
        "/cdn/blob" => Reply::of(200, &b"short"[..]),
        _ => hub(request, &contents(LENGTH), &sha256(&contents(LENGTH))),
    });
    let client = Client::of(&server);
    assert_says(
        &client.pull("hf:o/r").unwrap_err(),
        &["expected 600000 bytes, found 5"],
    );
    client.assert_nothing_in_place();
}

#[test]
fn a_repository_that_is_gated_gone_or_hostile_is_told_in_one_line() {
    let gated = Server::start(|_, _| Reply::of(401, "").with("x-error-code", "GatedRepo"));
    let client = Client::of(&gated);
    let error = client.pull("hf:o/r").unwrap_err();
    assert_says(
        &error,
        &["hf:o/r is gated", &gated.url("/o/r"), "--token-file"],
    );

    let server = Server::start(|request, _| hub(request, b"x", &sha256(b"x")));
    assert_says(
        &Client::of(&server).pull("hf:o/absent").unwrap_err(),
        &["no such repository"],
    );
    assert_says(
        &Client::of(&server).pull("hf:o/r/*.onnx").unwrap_err(),
        &["'*.onnx'", "sub/tiny q4.gguf"],
    );

    for path in ["../../../.bashrc", "/etc/passwd", "a/../../b", "a\u{1b}[2J"] {
        let server = Server::start(move |request, _| {
            if request.path.contains("/tree/") {
                Reply::json(
                    serde_json::json!([{"type": "file", "path": path, "size": 1, "oid": "0"}]),
                )
            } else {
                Reply::json(serde_json::json!({"sha": COMMIT}))
            }
        });
        let client = Client::of(&server);
        let error = client.pull("hf:o/r/*").unwrap_err();
        assert!(matches!(error, HubError::UnsafePath { .. }), "{error:?}");
        client.assert_nothing_in_place();
    }
    for body in ["", "[", "{}", "[{\"type\": \"file\"}]"] {
        let server = Server::start(move |_, _| Reply::of(200, body));
        assert!(
            matches!(
                Client::of(&server).pull("hf:o/r"),
                Err(HubError::Nonsense { .. })
            ),
            "{body}"
        );
    }
    // A list without end.
    let server = Server::start(|request, _| {
        Reply::json(serde_json::json!([]))
            .with("link", &format!("<{}>; rel=\"next\"", request.path))
    });
    let error = Client::of(&server).pull("hf:o/r").unwrap_err();
    assert!(matches!(error, HubError::Nonsense { .. }), "{error:?}");
}

#[test]
fn a_file_larger_than_the_disk_is_refused_before_it_begins() {
    let server =
        Server::start(|_, _| Reply::of(200, "abc").with("content-length", "1000000000000000"));
    let client = Client::new();
    let error = client.pull(&server.url("/a.gguf")).unwrap_err();
    assert_says(
        &error,
        &["not enough space", "1000000000000000 bytes are needed"],
    );
}

#[test]
fn a_server_that_nobody_runs_is_called_unreachable() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let error = Client::new()
        .pull(&format!("http://127.0.0.1:{port}/a.gguf"))
        .unwrap_err();
    assert!(matches!(error, HubError::Unreachable { .. }), "{error:?}");
    assert_says(&error, &["127.0.0.1", "HTTPS_PROXY"]);
}

/// Set for the child process that trusts the certificate.
const CHILD: &str = "FIRSTWORD_TEST_TLS";

#[test]
fn a_certificate_is_trusted_only_if_the_user_says_so() {
    if let Some(url) = std::env::var_os(CHILD) {
        let client = Client::new();
        let (found, _) = client.pull(url.to_str().unwrap()).unwrap();
        assert_eq!(fs::read(found.gguf().unwrap()).unwrap(), contents(LENGTH));
        // From https into the open: refused.
        let open = url.to_str().unwrap().replace("a.gguf", "open.gguf");
        assert_says(&Client::new().pull(&open).unwrap_err(), &["plain http"]);
        return;
    }
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .unwrap()
    .with_no_client_auth()
    .with_single_cert(vec![made.cert.der().clone()], key)
    .unwrap();
    let server = Server::start_tls(Arc::new(config), |request, _| match request.path.as_str() {
        "/open.gguf" => Reply::to("http://localhost:1/a.gguf"),
        _ => Reply::file(request, &contents(LENGTH), "v1"),
    });
    let url = format!("https://localhost:{}/a.gguf", server.port);
    let error = Client::new().pull(&url).unwrap_err();
    assert!(matches!(error, HubError::Certificate { .. }), "{error:?}");
    assert_says(&error, &["localhost", "SSL_CERT_FILE"]);
    assert!(server.requests().is_empty(), "nothing was sent to it");

    let folder = tempfile::tempdir().unwrap();
    let trusted = folder.path().join("trusted.pem");
    fs::write(&trusted, made.cert.pem()).unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "a_certificate_is_trusted_only_if_the_user_says_so",
        ])
        .env(CHILD, url)
        .env("SSL_CERT_FILE", trusted)
        .output()
        .unwrap();
    assert!(
        child.status.success(),
        "{}",
        String::from_utf8_lossy(&child.stdout)
    );
    assert_eq!(server.count("/a.gguf"), 1);
}
