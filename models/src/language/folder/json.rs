//! Reads the configuration files of model folders: values that may be there, in one of a few places.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::FolderError;

/// Configuration files have some kilobytes; a folder with more is not what it says.
const LONGEST: u64 = 16 << 20;

/// The file as JSON.
pub(super) fn read(file: &Path) -> Result<Value, FolderError> {
    let unreadable = |source| FolderError::Unreadable {
        path: file.to_owned(),
        source,
    };
    let length = fs::metadata(file).map_err(unreadable)?.len();
    if length > LONGEST {
        return Err(said(
            file,
            format!("{length} bytes are too many for a configuration"),
        ));
    }
    let bytes = fs::read(file).map_err(unreadable)?;
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| said(file, error.to_string()))?;
    match value {
        Value::Object(_) => Ok(value),
        _ => Err(said(file, "expected an object".to_owned())),
    }
}

pub(super) fn said(file: &Path, said: String) -> FolderError {
    FolderError::Configuration {
        file: file.to_owned(),
        said,
    }
}

/// The first of these that is there and no null, as a size.
pub(super) fn size(
    file: &Path,
    value: &Value,
    keys: &[&str],
) -> Result<Option<usize>, FolderError> {
    for key in keys {
        match &value[*key] {
            Value::Null => (),
            Value::Number(number) => {
                // 2^31: positions, heads and tokens are counted in i32 by ONNX Runtime's own operators.
                let size = number.as_u64().filter(|&n| n > 0 && n < 1 << 31);
                return match size {
                    Some(size) => Ok(Some(size as usize)),
                    None => Err(said(
                        file,
                        format!("{key} is {number}, expected 1 to 2147483647"),
                    )),
                };
            }
            other => return Err(said(file, format!("{key} is {other}, expected a number"))),
        }
    }
    Ok(None)
}

/// A text, if there is one.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str()
}

/// A list of tokens that may be written as one number, a list, or null.
pub(super) fn tokens(file: &Path, value: &Value, key: &str) -> Result<Vec<u32>, FolderError> {
    let one = |value: &Value| {
        value
            .as_u64()
            .and_then(|n| u32::try_from(n).ok())
            .ok_or_else(|| {
                said(
                    file,
                    format!("{key} holds {value}, expected tokens' numbers"),
                )
            })
    };
    match &value[key] {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => list.iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    }
}

/// What LongRoPE's tables of short and long factors were trained on, in one of the two spellings.
pub(super) fn original_window(file: &Path, config: &Value) -> Result<Option<usize>, FolderError> {
    let scaling = &config["rope_scaling"];
    let long =
        scaling["long_factor"].is_array() || config["rope_parameters"]["long_factor"].is_array();
    if !long {
        return Ok(None);
    }
    let key = ["original_max_position_embeddings"];
    for place in [config, scaling, &config["rope_parameters"]] {
        if let Some(found) = size(file, place, &key)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
