//! GGUF file → model folder: weights streamed into ONNX with external data, tokenizer, configuration, manifest.
//!
//! ```text
//! FOLDER/model.onnx            the graph
//! FOLDER/model.onnx.data       its weights, every tensor on a page border
//! FOLDER/tokenizer.json …      the tokenizer, as Hugging Face's libraries read it
//! FOLDER/genai_config.json     what onnxruntime-genai wants to know (flavour `fused`)
//! FOLDER/firstword.json        where all this came from: [`Manifest`]
//! ```
//!
//! The folder is made beside its goal under another name and moved there when it is complete and on the device: at
//! any time the goal is not there, or whole. Whatever goes wrong, nothing else is left.

pub mod calibrate;
mod distance;
mod error;
mod folder;
mod genai;
mod manifest;
mod room;
mod ways;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub use calibrate::{Calibrated, Calibration};
pub use error::ImportError;
pub use manifest::{Manifest, Quality, REMARK_KEY, Rope, Source};
pub use room::{Room, check_room};

use super::architecture::Description;
use super::lower::{
    self, Exact, Fast, Flavour, Float, Fused, Lowering, Plain, Reading, Recipe, Smoothing,
    Symmetric, Ways,
};
use crate::gguf::{Gguf, Kind, Metadata};
use crate::onnx::{Builder, DataFile};

/// The graph's file in a folder.
pub const GRAPH: &str = "model.onnx";
/// The weights' file in a folder.
pub const DATA: &str = "model.onnx.data";
/// The manifest's file in a folder.
pub const MANIFEST: &str = "firstword.json";

/// The longest window that is taken without being asked for, in tokens: the rotation's tables grow with it.
const LONGEST_UNASKED: usize = 32_768;

/// How weights are laid down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// 32-bit floats: for small models in tests.
    Float,
    /// As the file has them, exact or near-lossless.
    Exact,
    /// 8-bit weights, inputs of 14 bits; the products that cost most of the quality as in `exact`.
    Balanced,
    /// The same, inputs of 8 bits where that costs least, in less time.
    Fast,
}

impl Precision {
    /// Those that `--quant` takes.
    pub const ALL: [Self; 4] = [Self::Exact, Self::Balanced, Self::Fast, Self::Float];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Exact => "exact",
            Self::Balanced => "balanced",
            Self::Fast => "fast",
        }
    }

    /// `ways` are those that calibration chose.
    fn recipe(self, ways: &Ways) -> Box<dyn Recipe> {
        match self {
            Self::Float => Box::new(Float::default()),
            Self::Exact => Box::new(Exact::default()),
            Self::Balanced => Box::new(Fast::balanced(ways.clone())),
            Self::Fast => Box::new(Fast::new(ways.clone())),
        }
    }

    /// At most so many bytes are laid down for each weight that is stored as `kind`.
    #[must_use]
    pub fn bytes_per_weight(self, kind: Kind) -> f64 {
        self.recipe(&Ways::new()).bytes_per_weight(kind)
    }

    /// Whether it gains by moving range from inputs into weights.
    #[must_use]
    pub fn is_smoothed(self) -> bool {
        matches!(self, Self::Balanced | Self::Fast)
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|p| p.name() == text);
        named.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("expected one of {names}, found {text:?}")
        })
    }
}

/// In which operators the graph is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphFlavour {
    /// ONNX Runtime's own operators, for its CPU and CUDA providers.
    Fused,
    /// Standard operators, for OpenVINO and TensorRT.
    Plain,
}

impl GraphFlavour {
    /// Those that `--flavour` takes.
    pub const ALL: [Self; 2] = [Self::Fused, Self::Plain];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fused => "fused",
            Self::Plain => "plain",
        }
    }

    fn operators(self) -> Box<dyn Flavour> {
        match self {
            Self::Fused => Box::new(Fused::default()),
            Self::Plain => Box::new(Plain::default()),
        }
    }

    /// How weights of a precision are laid down in these operators. `plain` leaves it to its providers whether
    /// activations are rounded: it has no `balanced` and no `fast`.
    fn recipe(self, precision: Precision, ways: &Ways) -> Result<Box<dyn Recipe>, ImportError> {
        match (self, precision) {
            (Self::Plain, Precision::Exact) => Ok(Box::new(Symmetric)),
            (Self::Plain, Precision::Balanced | Precision::Fast) => Err(ImportError::Precision {
                flavour: self.name(),
                found: precision.name(),
            }),
            (Self::Fused, _) | (Self::Plain, Precision::Float) => Ok(precision.recipe(ways)),
        }
    }
}

impl FromStr for GraphFlavour {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|f| f.name() == text);
        named.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("expected one of {names}, found {text:?}")
        })
    }
}

/// What to import, and how.
pub struct ImportRequest<'a> {
    /// The GGUF file; of a split one any part.
    pub source: PathBuf,
    /// The folder to be made. Its parent must exist.
    pub goal: PathBuf,
    /// The model's name; by default the file's own.
    pub name: Option<String>,
    /// How weights are laid down.
    pub precision: Precision,
    /// In which operators the graph is written.
    pub flavour: GraphFlavour,
    /// The longest sequence, in tokens; by default what the model was made for, up to 32 768.
    pub window: Option<usize>,
    /// Whether a folder that is already there is replaced, in one step.
    pub replace: bool,
    /// Factors that move range from inputs into weights, where there is no calibration; mostly none.
    pub smoothing: Smoothing,
    /// Runs the model to choose such factors, and to measure it. Without, neither is done.
    pub calibration: Option<Calibration<'a>>,
    /// Writes the tokenizer's files into a folder.
    pub tokenizer: &'a TokenizerFiles,
}

/// Writes the tokenizer that metadata describe into a folder; an error is one line.
pub type TokenizerFiles = dyn Fn(&Metadata, &Path) -> Result<(), String>;

/// How far an import is, in bytes of the source file: they are read twice, once for their hash, and up to six times more
/// where factors are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Read so far.
    pub done: u64,
    /// To be read in all.
    pub total: u64,
}

/// Imports a model. `progress` is told about every quarter of a megabyte, and stops the import by breaking.
///
/// Memory in use does not grow with the model, but for the scales of its largest matrix, and all its codes in `plain`;
/// with calibration for its largest layer, which is run, and never for its vocabulary.
///
/// # Errors
///
/// [`ImportError`]; then the goal is as it was, and nothing else is left.
pub fn import(
    request: &ImportRequest<'_>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Manifest, ImportError> {
    if !request.replace && request.goal.symlink_metadata().is_ok() {
        return Err(ImportError::Exists {
            goal: request.goal.clone(),
        });
    }
    let recipe = |ways: &Ways| request.flavour.recipe(request.precision, ways);
    let gguf = Gguf::open(&request.source)?;
    let description = Description::read(gguf.metadata(), &gguf)?;
    let window = window(request, &description)?;
    room::check(
        request,
        &description,
        &gguf,
        recipe(&Ways::new())?.as_ref(),
        window,
    )?;

    let bytes: u64 = gguf.parts().map(|(_, bytes)| bytes).sum();
    let weights: u64 = gguf.tensors().iter().map(|tensor| tensor.bytes).sum();
    let times = match request.calibration {
        None => 1,
        Some(_) if !request.precision.is_smoothed() => 3,
        Some(_) => 4 + ways::times(request.precision).len() as u64,
    };
    let total = bytes + times * weights;
    let done = Cell::new(0);
    let progress = RefCell::new(progress);
    let tell = |more: u64| {
        done.set((done.get() + more).min(total));
        progress.borrow_mut()(Progress {
            done: done.get(),
            total,
        })
    };

    let folder = folder::Unfinished::beside(&request.goal)?;
    let sha256 = hash(&gguf, &tell)?;
    let calibrated = request
        .calibration
        .map(|calibration| {
            let reading = Reading::new(&gguf, &tell);
            calibration.run(&description, &reading, request.precision)
        })
        .transpose()?;
    let (smoothing, ways) = match &calibrated {
        Some(calibrated) => (&calibrated.smoothing, &calibrated.ways),
        None => (&request.smoothing, &Ways::new()),
    };
    let recipe = recipe(ways)?;
    let lowering = Lowering {
        description: &description,
        window,
        smoothing,
    };
    let graph = graph(request, &lowering, &gguf, recipe, folder.path(), &tell)?;
    folder.write(GRAPH, &graph)?;
    drop(graph);
    (request.tokenizer)(gguf.metadata(), folder.path())
        .map_err(|said| ImportError::Tokenizer { said })?;
    let source = Source {
        file: request
            .source
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        sha256,
        bytes,
    };
    let mut manifest = Manifest::of(request, gguf.metadata(), &description, source, window)?;
    manifest.quality = calibrated.map(|calibrated| calibrated.quality);
    folder.write(MANIFEST, &manifest.to_bytes())?;
    // onnxruntime-genai knows no graph that leaves the cache to its caller.
    if request.flavour == GraphFlavour::Fused {
        let config = genai::config(&description, &manifest);
        folder.write("genai_config.json", &config)?;
    }
    if tell(total).is_break() {
        return Err(ImportError::Cancelled);
    }
    folder.finish(&request.goal, request.replace)?;
    Ok(manifest)
}

fn window(request: &ImportRequest<'_>, description: &Description) -> Result<usize, ImportError> {
    let most = description.context;
    match request.window {
        Some(window) if window == 0 || window > most => Err(ImportError::Window {
            most,
            found: window,
        }),
        Some(window) => Ok(window),
        None => Ok(most.min(LONGEST_UNASKED)),
    }
}

fn graph(
    request: &ImportRequest<'_>,
    lowering: &Lowering<'_>,
    gguf: &Gguf,
    mut recipe: Box<dyn Recipe>,
    folder: &Path,
    tell: &dyn Fn(u64) -> ControlFlow<()>,
) -> Result<Vec<u8>, ImportError> {
    let path = folder.join(DATA);
    let unwritable = |source| ImportError::Write {
        path: path.clone(),
        source,
    };
    let mut flavour = request.flavour.operators();
    let data = DataFile::create(&path).map_err(unwritable)?;
    let mut g = Builder::with_data(flavour.opset(), data);
    g.property("firstword.precision", request.precision.name());
    g.property("firstword.flavour", request.flavour.name());
    let reading = Reading::new(gguf, tell);
    lower::decoder(
        &mut g,
        lowering,
        &reading,
        flavour.as_mut(),
        recipe.as_mut(),
    )
    .map_err(|error| match error {
        lower::LowerError::Cancelled => ImportError::Cancelled,
        lower::LowerError::Write(source) => unwritable(source),
        other => ImportError::Lower(other),
    })?;
    g.finish("decoder").map_err(unwritable)
}

/// SHA-256 of all parts one after another, as `cat PARTS | sha256sum` says it.
fn hash(gguf: &Gguf, tell: &dyn Fn(u64) -> ControlFlow<()>) -> Result<String, ImportError> {
    use sha2::{Digest, Sha256};
    use std::io::Read;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    for (path, _) in gguf.parts() {
        let unreadable = |source| ImportError::Read {
            path: path.to_owned(),
            source,
        };
        let mut file = File::open(path).map_err(unreadable)?;
        loop {
            let read = match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(unreadable(error)),
            };
            hash.update(&buffer[..read]);
            if tell(read as u64).is_break() {
                return Err(ImportError::Cancelled);
            }
        }
    }
    Ok(crate::store::hash::in_hexadecimal(hash))
}
