//! Finds ONNX Runtime's shared library and opens it, once per process.
//!
//! Nothing of ONNX Runtime is linked into the program: the same file runs with the build that fits
//! the device (NVIDIA's on a Jetson, the Python wheel's elsewhere). The price is that a path can be
//! wrong in many ways; each is told apart here and said in one line with what to do.
//!
//! A place that someone named (flag, environment, configuration) is the only place looked at: when
//! it fails, that is an error, never a silent step to the next. The places nobody named (beside the
//! program, the cache) are tried in that order.
//!
//! Opening a library runs its code, so only files the user or `firstword model pull` put there are
//! opened, and only after their ELF headers were found fit.

use std::ffi::CStr;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ort::AsPointer;
use ort::environment::Environment;

mod elf;
mod messages;
mod problem;

pub use elf::Unfit;
pub use messages::{Message, Messages};
pub use problem::{LibraryError, Problem};

/// The oldest ONNX Runtime accepted, as the minor number of 1.x: what JetPack 5 has.
///
/// It is also the function table this program is compiled for (`api-18` of the `ort` crate).
pub const OLDEST_MINOR: u32 = 18;

// `ort` is compiled for this table; a newer one would refuse libraries that we say we accept.
const _: () = assert!(ort::MINOR_VERSION == OLDEST_MINOR);

/// Where to look for `libonnxruntime.so`. Each path may be the file or a folder that holds it; of
/// several versions in a folder the newest is taken.
///
/// Relative paths are relative to the working directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// Named on the command line.
    pub flag: Option<PathBuf>,
    /// The value of `ORT_DYLIB_PATH`; an empty value counts as not set, as everywhere in `ort`.
    pub environment: Option<PathBuf>,
    /// Named in the configuration file.
    pub configuration: Option<PathBuf>,
    /// The folder of the running program.
    pub beside: Option<PathBuf>,
    /// The folder `firstword model pull onnxruntime` fills.
    pub cache: Option<PathBuf>,
}

/// How a library was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The command line.
    Flag,
    /// `ORT_DYLIB_PATH`.
    Environment,
    /// The configuration file.
    Configuration,
    /// The folder of the running program.
    BesideBinary,
    /// The cache.
    Cache,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Flag => "the flag",
            Self::Environment => "ORT_DYLIB_PATH",
            Self::Configuration => "the configuration",
            Self::BesideBinary => "the folder of the program",
            Self::Cache => "the cache",
        })
    }
}

/// The ONNX Runtime of this process. There is one, and it stays until the process ends: unloading
/// it at exit is what crashes with some providers (onnxruntime#5384).
#[derive(Debug)]
pub struct Library {
    /// The file that was opened, with symbolic links resolved.
    pub path: PathBuf,
    /// What the library says its version is, such as `1.31.1`.
    pub version: String,
    /// How it was found.
    pub origin: Origin,
    /// Places nobody named that held something unusable and were passed over, one line each.
    pub passed_over: Vec<String>,
    environment: Environment,
    messages: Arc<Messages>,
    minor: u32,
    base: ApiBase,
}

/// The two functions every version of the library has.
#[derive(Debug, Clone, Copy)]
struct ApiBase(&'static ort::sys::OrtApiBase);

impl Library {
    /// The one environment; needed to build sessions with `ort` directly.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// Warnings and errors of ONNX Runtime, kept instead of printed.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// The function table of version 1.`minor`, or `None` if the library is older.
    pub(crate) fn table(&self, minor: u32) -> Option<*const ort::sys::OrtApi> {
        // Asked for a table it lacks, the library prints a line on stderr: so ask its version first.
        if self.minor < minor {
            return None;
        }
        // SAFETY: GetApi may be called with any number at any time; it returns a static or null.
        let table = unsafe { (self.base.0.GetApi)(minor) };
        (!table.is_null()).then_some(table)
    }

    /// The environment as the C interface wants it.
    pub(crate) fn environment_pointer(&self) -> *const ort::sys::OrtEnv {
        self.environment.ptr()
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ONNX Runtime {} at {} (found by {})",
            self.version,
            self.path.display(),
            self.origin
        )
    }
}

/// The library of this process, once there is one. Never freed, see [`Library`].
static LOADED: Mutex<Option<&'static Library>> = Mutex::new(None);

impl Search {
    /// Whether only the cache is left to look in: no place was named, and none lies beside the program.
    #[must_use]
    pub fn finds_in_cache_only(&self) -> bool {
        let named = [&self.flag, &self.environment, &self.configuration];
        let beside = self
            .beside
            .as_ref()
            .and_then(|folder| folder.read_dir().ok());
        let is_library =
            |name: std::ffi::OsString| name.to_string_lossy().starts_with("libonnxruntime.so");
        named.iter().all(|place| place.is_none())
            && !beside
                .into_iter()
                .flatten()
                .flatten()
                .any(|entry| is_library(entry.file_name()))
    }

    /// Finds, checks and opens the library; later calls that find the same file get the same
    /// library back.
    ///
    /// # Errors
    ///
    /// [`LibraryError::NotFound`] when no place holds one, [`LibraryError::Unusable`] when a place
    /// that was named (or the last one tried) holds something else, [`LibraryError::AlreadyLoaded`]
    /// when this process runs another one: there is one environment per process. A failure leaves
    /// nothing behind; another search may follow.
    pub fn load(&self) -> Result<&'static Library, LibraryError> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.find()?;
        if let Some(library) = *loaded {
            if library.path == found.path {
                return Ok(library);
            }
            return Err(LibraryError::AlreadyLoaded {
                loaded: library.path.clone(),
                asked: found.path,
            });
        }
        let library = Box::leak(Box::new(found.open()?));
        *loaded = Some(library);
        Ok(library)
    }

    /// The place to use, checked as far as that goes without handing it to `ort`.
    fn find(&self) -> Result<Candidate, LibraryError> {
        let environment = self
            .environment
            .as_ref()
            .filter(|path| !path.as_os_str().is_empty());
        let named = [
            (Origin::Flag, self.flag.as_ref()),
            (Origin::Environment, environment),
            (Origin::Configuration, self.configuration.as_ref()),
        ];
        for (origin, place) in named {
            if let Some(place) = place {
                return candidate(origin, place)
                    .map_err(|(path, problem)| LibraryError::unusable(origin, path, problem));
            }
        }

        let unnamed = [
            (Origin::BesideBinary, &self.beside),
            (Origin::Cache, &self.cache),
        ];
        let mut passed_over = Vec::new();
        let mut empty = Vec::new();
        let mut last = None;
        for (origin, place) in unnamed {
            let Some(place) = place else { continue };
            match candidate(origin, place) {
                Ok(candidate) => {
                    return Ok(Candidate {
                        passed_over,
                        ..candidate
                    });
                }
                Err((path, Problem::Missing | Problem::NoneInFolder)) => {
                    empty.push(format!("{origin} ({})", path.display()));
                }
                Err((path, problem)) => {
                    let error = LibraryError::unusable(origin, path, problem);
                    passed_over.push(error.to_string());
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or(LibraryError::NotFound {
            tried: empty.join(", "),
        }))
    }
}

/// A file that is a library, exports ONNX Runtime's entry and is new enough.
struct Candidate {
    origin: Origin,
    path: PathBuf,
    version: String,
    minor: u32,
    passed_over: Vec<String>,
    base: ApiBase,
}

/// Looks at one place. The error carries the path it is about: the file found in a folder, if one was.
fn candidate(origin: Origin, place: &Path) -> Result<Candidate, (PathBuf, Problem)> {
    let file = library_in(place).map_err(|problem| (place.to_owned(), problem))?;
    let path = file
        .canonicalize()
        .map_err(|error| (file.clone(), Problem::Unfit(error.into())))?;
    match inspect(&path) {
        Ok((version, minor, base)) => Ok(Candidate {
            origin,
            path,
            version,
            minor,
            passed_over: Vec::new(),
            base,
        }),
        Err(problem) => Err((file, problem)),
    }
}

/// The library file that `place` means: itself, or the newest one in it.
fn library_in(place: &Path) -> Result<PathBuf, Problem> {
    let metadata = match place.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(Problem::Missing),
        Err(error) => return Err(Problem::Unfit(error.into())),
    };
    if metadata.is_file() {
        return Ok(place.to_owned());
    }
    if !metadata.is_dir() {
        // A pipe or device: opening it to look would block or worse.
        return Err(Problem::Unfit(Unfit::NotALibrary(
            "neither a file nor a folder",
        )));
    }
    let mut newest: Option<(Vec<u64>, PathBuf)> = None;
    for entry in place
        .read_dir()
        .map_err(|error| Problem::Unfit(error.into()))?
    {
        let entry = entry.map_err(|error| Problem::Unfit(error.into()))?;
        let name = entry.file_name();
        let Some(version) = name.to_str().and_then(version_in_name) else {
            continue;
        };
        let path = entry.path();
        if path.is_file() && newest.as_ref().is_none_or(|(best, _)| version > *best) {
            newest = Some((version, path));
        }
    }
    newest.map(|(_, path)| path).ok_or(Problem::NoneInFolder)
}

/// The numbers of `libonnxruntime.so.1.31.1`; none for the plain name, which any version beats.
fn version_in_name(name: &str) -> Option<Vec<u64>> {
    match name.strip_prefix("libonnxruntime.so")? {
        "" => Some(Vec::new()),
        rest => rest
            .strip_prefix('.')?
            .split('.')
            .map(|number| number.parse().ok())
            .collect(),
    }
}

/// Opens the file as a library and asks it for its version.
fn inspect(path: &Path) -> Result<(String, u32, ApiBase), Problem> {
    let mut file = File::open(path).map_err(|error| Problem::Unfit(error.into()))?;
    elf::check(&mut file)?;

    // SAFETY: the file's constructors run here. It is a shared library for this machine, in a place
    // the user named or `firstword model pull` filled; that is the trust any dynamic linking needs.
    let library = unsafe { libloading::Library::new(path) }
        .map_err(|error| Problem::Linker(linker_text(&error)))?;
    type Entry = unsafe extern "C" fn() -> *const ort::sys::OrtApiBase;
    // SAFETY: every ONNX Runtime exports OrtGetApiBase with this signature (onnxruntime_c_api.h).
    let entry =
        unsafe { library.get::<Entry>(b"OrtGetApiBase\0") }.map_err(|_| Problem::NoEntry)?;
    // SAFETY: as above; it takes nothing and returns a static. A null is looked for.
    let base = unsafe { entry().as_ref() }.ok_or(Problem::NoEntry)?;
    // SAFETY: both functions of the base are callable at any time.
    let text = unsafe { (base.GetVersionString)() };
    if text.is_null() {
        return Err(Problem::NoVersion {
            found: "nothing".to_owned(),
        });
    }
    // SAFETY: not null, and by contract NUL-terminated and never freed.
    let version = unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned();
    let minor = minor_of(&version)?;
    // SAFETY: as above.
    if unsafe { (base.GetApi)(OLDEST_MINOR) }.is_null() {
        return Err(Problem::NoTable { found: version });
    }
    // `base` points into the library: from here on it must stay mapped. `ort` keeps its own handle
    // for good, so one more handle costs nothing.
    std::mem::forget(library);
    Ok((version, minor, ApiBase(base)))
}

/// What the linker said; `libloading` keeps that in the error's source.
fn linker_text(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error);
    crate::one_line(&source.map_or_else(|| error.to_string(), ToString::to_string))
}

/// The minor number of a version new enough: versions are `1.minor.patch`, and the minor number is
/// that of the newest function table.
fn minor_of(version: &str) -> Result<u32, Problem> {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(1)), Some(Ok(minor))) if minor >= OLDEST_MINOR => Ok(minor),
        (Some(Ok(1)), Some(Ok(_))) => Err(Problem::TooOld {
            found: version.to_owned(),
        }),
        _ => Err(Problem::NoVersion {
            found: format!("'{}'", crate::one_line(version)),
        }),
    }
}

impl Candidate {
    /// Hands the library to `ort` and makes the one environment.
    fn open(self) -> Result<Library, LibraryError> {
        let Self {
            origin,
            path,
            version,
            minor,
            passed_over,
            base,
        } = self;
        let messages = Arc::new(Messages::default());
        let environment = ort::init_from(&path)
            .map_err(|error| error.to_string())
            .and_then(|builder| {
                builder
                    .with_name("firstword")
                    .with_telemetry(false)
                    .with_logger(messages::logger(&messages))
                    .build()
                    .map_err(|error| error.to_string())
            })
            .map_err(|said| {
                LibraryError::unusable(
                    origin,
                    path.clone(),
                    Problem::Refused(crate::one_line(&said)),
                )
            })?;
        // With a logger of our own `ort` asks for everything, down to a line per node and run.
        environment.set_log_level(ort::logging::LogLevel::Warning);
        Ok(Library {
            path,
            version,
            origin,
            passed_over,
            environment,
            messages,
            minor,
            base,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_library_of_a_folder_is_taken_by_number_not_by_letter() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "libonnxruntime.so",
            "libonnxruntime.so.1",
            "libonnxruntime.so.1.9.0",
            "libonnxruntime.so.1.31.1",
            "libonnxruntime.so.1.31.1.part",
            "libonnxruntime_providers_shared.so",
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("libonnxruntime.so.2.0.0")).unwrap();
        let found = library_in(folder.path()).unwrap();
        assert_eq!(found.file_name().unwrap(), "libonnxruntime.so.1.31.1");
    }

    #[test]
    fn versions_are_judged_by_their_minor_number() {
        assert!(minor_of("1.18.0").is_ok_and(|minor| minor == 18));
        assert!(minor_of("1.31.1").is_ok_and(|minor| minor == 31));
        assert!(minor_of("1.100.0-dev").is_ok());
        assert!(matches!(minor_of("1.17.3"), Err(Problem::TooOld { .. })));
        assert!(matches!(minor_of("1.9"), Err(Problem::TooOld { .. })));
        for odd in ["", "2.0.0", "one.two", "1"] {
            assert!(
                matches!(minor_of(odd), Err(Problem::NoVersion { .. })),
                "{odd}"
            );
        }
    }
}
