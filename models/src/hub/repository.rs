//! What a Hugging Face repository holds, and which of it is a model that we can use.
//!
//! Repositories often hold one model many times over (a GGUF for each quantisation, an ONNX folder for each device).
//! Without a pattern a single model is taken, and several are listed to choose from: nobody wants 80 GB by mistake.
//! Weights in other formats are left where they are.

use std::collections::BTreeSet;

use serde_json::Value;

use super::address::{Repository, is_safe_path, matches};
use super::client::{Client, is_sha256};
use super::transfer::{Attended, Item, Progress};
use super::{HubError, Url};

/// Files of a repository at one commit, chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The commit, where the server names it; else the revision asked for.
    pub commit: String,
    /// The licence that the repository claims.
    pub licence: Option<String>,
    /// The files; paths are below the download's folder.
    pub items: Vec<Item>,
}

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listed {
    path: String,
    bytes: Option<u64>,
    sha256: Option<String>,
}

/// Asks what the repository holds and chooses from it.
///
/// # Errors
/// [`HubError`]: a server that can't be used, or nothing (or too much) to choose from.
pub fn choose(
    client: &Client,
    repository: &Repository,
    attended: &mut Attended<'_>,
) -> Result<Chosen, HubError> {
    let id = format!("{}/{}", repository.owner, repository.name);
    (attended.tell)(Progress::Asking {
        address: &format!("hf:{id}"),
    });
    let revision = repository.revision.as_deref().unwrap_or("main");
    let (owner, name) = (repository.owner.as_str(), repository.name.as_str());
    let about = client
        .endpoint()
        .below(&["api", "models", owner, name, "revision", revision], None);
    let (about, _) = ask(client, &about, repository, attended)?;
    let commit = about["sha"]
        .as_str()
        .filter(|sha| sha.len() == 40 && sha.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .unwrap_or(revision)
        .to_owned();
    let files = list(client, repository, &commit, attended)?;
    let items = pick(&id, repository.pattern.as_deref(), &files)?
        .into_iter()
        .map(|(path, file)| {
            let mut segments = vec![owner, name, "resolve", commit.as_str()];
            segments.extend(file.path.split('/'));
            Item {
                url: client.endpoint().below(&segments, None),
                path,
                bytes: file.bytes,
                sha256: file.sha256.clone(),
            }
        })
        .collect();
    Ok(Chosen {
        commit,
        licence: licence(&about),
        items,
    })
}

fn ask(
    client: &Client,
    url: &Url,
    repository: &Repository,
    attended: &mut Attended<'_>,
) -> Result<(Value, Option<Url>), HubError> {
    let page = client
        .endpoint()
        .below(&[&repository.owner, &repository.name], None);
    attended
        .persist(client, &|| 0, &mut |_| client.json(url))
        .map_err(|error| gated(error, repository, &page))
}

/// The same error; one about a gate names the repository and its page.
pub(super) fn gated(error: HubError, repository: &Repository, page: &Url) -> HubError {
    match error {
        HubError::Gated { .. } => HubError::Gated {
            repository: format!("hf:{}/{}", repository.owner, repository.name),
            page: page.shown(),
        },
        other => other,
    }
}

/// All files at a commit, over as many pages as it takes.
fn list(
    client: &Client,
    repository: &Repository,
    commit: &str,
    attended: &mut Attended<'_>,
) -> Result<Vec<Listed>, HubError> {
    // A thousand files are a page of the real server.
    const PAGES: usize = 200;
    let tree = [
        "api",
        "models",
        &repository.owner,
        &repository.name,
        "tree",
        commit,
    ];
    let first = client.endpoint().below(&tree, Some("recursive=true"));
    let mut next = Some(first.clone());
    let mut files = Vec::new();
    for _ in 0..PAGES {
        let Some(url) = next else { return Ok(files) };
        attended.check()?;
        let (page, following) = ask(client, &url, repository, attended)?;
        let nonsense = |reason: &str| HubError::Nonsense {
            url: url.shown(),
            reason: reason.to_owned(),
        };
        for entry in page
            .as_array()
            .ok_or_else(|| nonsense("expected a list of files"))?
        {
            if entry["type"] != "file" {
                continue;
            }
            let path = entry["path"]
                .as_str()
                .ok_or_else(|| nonsense("a file has no path"))?;
            if !is_safe_path(path) {
                return Err(HubError::UnsafePath {
                    repository: format!("hf:{}/{}", repository.owner, repository.name),
                    path: path.to_owned(),
                });
            }
            let lfs = &entry["lfs"];
            files.push(Listed {
                path: path.to_owned(),
                bytes: lfs["size"].as_u64().or_else(|| entry["size"].as_u64()),
                sha256: lfs["oid"]
                    .as_str()
                    .map(str::to_ascii_lowercase)
                    .filter(|oid| is_sha256(oid)),
            });
        }
        next = following;
    }
    Err(HubError::Nonsense {
        url: first.shown(),
        reason: format!("its list of files has more than {PAGES} pages"),
    })
}

fn licence(about: &Value) -> Option<String> {
    let card = &about["cardData"];
    let claimed = match card["license"].as_str() {
        Some("other") => card["license_name"].as_str().or(Some("other")),
        claimed => claimed,
    };
    claimed
        .map(|text| {
            text.chars()
                .filter(|c| !c.is_control())
                .take(60)
                .collect::<String>()
        })
        .filter(|text| !text.is_empty())
}

/// The files to fetch, each with its path below the download's folder.
fn pick<'a>(
    id: &str,
    pattern: Option<&str>,
    files: &'a [Listed],
) -> Result<Vec<(String, &'a Listed)>, HubError> {
    let wanted: Vec<&Listed> = match pattern {
        Some(pattern) => {
            let folder = format!("{}/", pattern.trim_end_matches('/'));
            let named: Vec<_> = files
                .iter()
                .filter(|file| matches(pattern, &file.path) || file.path.starts_with(&folder))
                .collect();
            if named.is_empty() {
                return Err(HubError::NothingMatches {
                    repository: format!("hf:{id}"),
                    pattern: pattern.to_owned(),
                    files: some(files.iter().map(|file| file.path.clone())),
                });
            }
            named
        }
        None => only_model(id, files)?,
    };
    // A folder of ONNX Runtime GenAI is whole in itself and is laid out as it is found there.
    let configured: Vec<&str> = wanted
        .iter()
        .filter_map(|file| file.path.strip_suffix("genai_config.json"))
        .filter(|folder| folder.is_empty() || folder.ends_with('/'))
        .collect();
    let base = match configured[..] {
        [folder] if wanted.iter().all(|file| file.path.starts_with(folder)) => folder,
        _ => "",
    };
    let onnx = wanted.iter().any(|file| file.path.contains(".onnx"));
    let mut picked: Vec<(String, &Listed)> = wanted
        .iter()
        .map(|file| (file.path[base.len()..].to_owned(), *file))
        .collect();
    let mut taken: BTreeSet<String> = picked.iter().map(|(path, _)| path.clone()).collect();
    for file in files {
        let beside = match base {
            "" => onnx && goes_with_onnx(&file.path),
            _ => false,
        };
        if (beside || is_legal(&file.path)) && taken.insert(file.path.clone()) {
            picked.push((file.path.clone(), file));
        }
    }
    // The note of the download lies beside the files.
    picked.retain(|(path, _)| path != super::note::FILE);
    Ok(picked)
}

/// Licences and notices at the top of a repository come along with whatever is taken.
fn is_legal(path: &str) -> bool {
    let upper = path.to_ascii_uppercase();
    !path.contains('/')
        && ["LICENSE", "LICENCE", "NOTICE", "USE_POLICY"]
            .iter()
            .any(|word| upper.starts_with(word))
}

/// What an ONNX graph needs beside it, at the top of a repository (the layout of Optimum and transformers.js).
fn goes_with_onnx(path: &str) -> bool {
    let known = [
        "tokenizer.model",
        "merges.txt",
        "vocab.txt",
        "chat_template.jinja",
        "chat_template.json",
    ];
    let json = [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ];
    let more = [
        "special_tokens_map.json",
        "added_tokens.json",
        "vocab.json",
        "preprocessor_config.json",
    ];
    known.contains(&path) || json.contains(&path) || more.contains(&path)
}

/// The one model of a repository.
fn only_model<'a>(id: &str, files: &'a [Listed]) -> Result<Vec<&'a Listed>, HubError> {
    let choose = |choices: BTreeSet<String>| HubError::Choose {
        repository: format!("hf:{id}"),
        choices: some(
            choices
                .into_iter()
                .map(|choice| format!("hf:{id}/{choice}")),
        ),
    };
    let ending = |end: &str| {
        files
            .iter()
            .filter(|file| file.path.ends_with(end))
            .collect::<Vec<_>>()
    };
    let gguf = ending(".gguf");
    if !gguf.is_empty() {
        // Parts of one file are one choice.
        let choices: BTreeSet<String> = gguf.iter().map(|file| whole_of(&file.path)).collect();
        return if choices.len() == 1 {
            Ok(gguf)
        } else {
            Err(choose(choices))
        };
    }
    let folder_of = |path: &str| {
        path.rsplit_once('/')
            .map_or(String::new(), |(folder, _)| folder.to_owned())
    };
    let genai: BTreeSet<String> = files
        .iter()
        .filter(|file| file.path.rsplit('/').next() == Some("genai_config.json"))
        .map(|file| folder_of(&file.path))
        .collect();
    match genai.len() {
        0 => {}
        1 => {
            let folder = genai.first().cloned().unwrap_or_default();
            return Ok(files
                .iter()
                .filter(|file| folder_of(&file.path) == folder)
                .collect());
        }
        _ => {
            return Err(choose(
                genai
                    .into_iter()
                    .map(|folder| {
                        if folder.is_empty() {
                            "*".to_owned()
                        } else {
                            folder
                        }
                    })
                    .collect(),
            ));
        }
    }
    let onnx = ending(".onnx");
    match onnx[..] {
        [] => Err(HubError::NoModel {
            repository: id.to_owned(),
        }),
        [graph] => Ok(files
            .iter()
            .filter(|file| file.path.starts_with(&graph.path))
            .collect()),
        _ => Err(choose(
            onnx.iter().map(|file| format!("{}*", file.path)).collect(),
        )),
    }
}

/// `a-00001-of-00003.gguf` is a part of `a-*-of-00003.gguf`; any other file is whole.
fn whole_of(path: &str) -> String {
    let number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    path.strip_suffix(".gguf")
        .and_then(|stem| stem.rsplit_once("-of-"))
        .filter(|(_, count)| number(count))
        .and_then(|(head, count)| Some((head.rsplit_once('-')?, count)))
        .filter(|((_, part), _)| number(part))
        .map_or_else(
            || path.to_owned(),
            |((head, _), count)| format!("{head}-*-of-{count}.gguf"),
        )
}

/// The first few, for a message on one line.
fn some(names: impl Iterator<Item = String>) -> String {
    const SHOWN: usize = 12;
    let mut names: Vec<String> = names.collect();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let mut text = names.join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(paths: &[&str]) -> Vec<Listed> {
        paths
            .iter()
            .map(|path| Listed {
                path: (*path).to_owned(),
                bytes: Some(1),
                sha256: None,
            })
            .collect()
    }

    fn picked(pattern: Option<&str>, paths: &[&str]) -> Result<Vec<String>, String> {
        let files = files(paths);
        let mut picked: Vec<String> = pick("o/r", pattern, &files)
            .map_err(|error| error.to_string())?
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        picked.sort();
        Ok(picked)
    }

    #[test]
    fn the_only_gguf_is_taken_with_its_licence_and_several_are_a_choice() {
        let one = [
            "README.md",
            "LICENSE",
            "a-q4.gguf",
            "model.safetensors",
            ".gitattributes",
        ];
        assert_eq!(picked(None, &one).unwrap(), ["LICENSE", "a-q4.gguf"]);
        let parts = ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "NOTICE"];
        assert_eq!(picked(None, &parts).unwrap().len(), 3);
        let error = picked(
            None,
            &[
                "a-q4.gguf",
                "a-q8.gguf",
                "b-00001-of-00002.gguf",
                "b-00002-of-00002.gguf",
            ],
        )
        .unwrap_err();
        for choice in [
            "hf:o/r/a-q4.gguf",
            "hf:o/r/a-q8.gguf",
            "hf:o/r/b-*-of-00002.gguf",
        ] {
            assert!(error.contains(choice), "{error}");
        }
        assert_eq!(
            picked(Some("*q4*"), &["a-q4.gguf", "a-q8.gguf"]).unwrap(),
            ["a-q4.gguf"]
        );
    }

    #[test]
    fn a_genai_folder_is_taken_whole_and_laid_out_flat() {
        let many = [
            "LICENSE",
            "config.json",
            "cpu/int4/genai_config.json",
            "cpu/int4/model.onnx",
            "cpu/int4/model.onnx.data",
            "cpu/int4/tokenizer.json",
            "cuda/genai_config.json",
            "cuda/model.onnx",
        ];
        let error = picked(None, &many).unwrap_err();
        assert!(
            error.contains("hf:o/r/cpu/int4") && error.contains("hf:o/r/cuda"),
            "{error}"
        );
        assert_eq!(
            picked(Some("cpu/int4"), &many).unwrap(),
            [
                "LICENSE",
                "genai_config.json",
                "model.onnx",
                "model.onnx.data",
                "tokenizer.json"
            ]
        );
    }

    #[test]
    fn a_graph_of_transformers_js_brings_its_tokenizer_along() {
        let many = [
            "config.json",
            "tokenizer.json",
            "onnx/model.onnx",
            "onnx/model_q4.onnx",
            "onnx/model_q4.onnx_data",
        ];
        assert!(
            picked(None, &many)
                .unwrap_err()
                .contains("hf:o/r/onnx/model_q4.onnx*")
        );
        assert_eq!(
            picked(Some("onnx/model_q4.onnx*"), &many).unwrap(),
            [
                "config.json",
                "onnx/model_q4.onnx",
                "onnx/model_q4.onnx_data",
                "tokenizer.json"
            ]
        );
    }

    #[test]
    fn a_repository_without_a_model_and_a_pattern_without_a_file_say_so() {
        assert!(
            picked(None, &["model.safetensors"])
                .unwrap_err()
                .contains("neither GGUF nor ONNX")
        );
        let error = picked(Some("*.gguf"), &["model.safetensors"]).unwrap_err();
        assert!(
            error.contains("'*.gguf'") && error.contains("model.safetensors"),
            "{error}"
        );
    }
}
