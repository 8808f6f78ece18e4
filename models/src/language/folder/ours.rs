//! Folders that `firstword model import` wrote: everything is in `firstword.json`.

use std::path::Path;

use super::signature::Names;
use super::{Description, FolderError, Layout, Origin, Wanted, json};

pub(super) const FILE: &str = "firstword.json";

pub(super) fn read(folder: &Path) -> Result<Description, FolderError> {
    let file = folder.join(FILE);
    let manifest = json::read(&file)?;
    let layout = match json::text(&manifest, "flavour") {
        Some("fused") => Layout::Fused,
        Some("plain") => Layout::Rows,
        other => {
            let found = other.unwrap_or("nothing");
            return Err(json::said(
                &file,
                format!("flavour is {found}, expected fused or plain; import the model again"),
            ));
        }
    };
    let size = |key| json::size(&file, &manifest, &[key]);
    let mut eos = json::tokens(&file, &manifest, "eos")?;
    eos.extend(json::tokens(&file, &manifest, "eot")?);
    eos.sort_unstable();
    eos.dedup();
    // One number for all layers with a window, or one number a layer, 0 for the whole.
    let windows = &manifest["attention_windows"];
    let local_window = match windows.as_array() {
        Some(list) => list
            .iter()
            .filter_map(serde_json::Value::as_u64)
            .filter(|&n| n > 0)
            .max(),
        None => windows.as_u64().filter(|&n| n > 0),
    };
    // Either flavour's own names: `plain` returns the new keys and values only.
    let mut names = Names::default();
    if layout == Layout::Rows {
        names.present = ["new.%d.key", "new.%d.value"].map(str::to_owned);
    }
    let graph = json::text(&manifest, "graph").unwrap_or("model.onnx");
    Ok(Description {
        origin: Origin::Firstword,
        graph: folder.join(super::name_of(Path::new(graph))),
        first: None,
        names: Some(names),
        layout: Wanted::Exactly(layout),
        layers: size("layers")?,
        kv_heads: size("kv_heads")?,
        head_dim: size("head_dim")?,
        vocabulary: size("vocabulary")?,
        window: size("window")?,
        local_window: local_window.and_then(|n| usize::try_from(n).ok()),
        original_window: json::size(&file, &manifest["rope"], &["original_window"])?,
        architecture: json::text(&manifest, "architecture")
            .unwrap_or("unknown")
            .to_owned(),
        remark: json::text(&manifest, "remark").map(str::to_owned),
        precision: json::text(&manifest, "precision")
            .unwrap_or("unknown")
            .to_owned(),
        eos,
        bos: json::tokens(&file, &manifest, "bos")?.first().copied(),
        said_by: file,
    })
}
