//! Floor 1: configuration.
//!
//! Problem: a service that starts with half of what its operator meant loses work in ways nobody
//! sees. So whatever is unknown, contradictory or weak refuses to start, everything wrong is told at
//! once, and each line says what to write instead.
//!
//! Design: `config/default.toml` is compiled in and *is* the default; no value is written a second
//! time in code. Layers are laid over it (file, environment, flags), flattened to dotted keys that
//! remember where they came from, then read key by key by a reader that goes on after a mistake,
//! then checked against one another. Nothing here reads the process's environment: the caller passes
//! it, so a test owns it. Files of secrets are read once, here.
//!
//! Neither problems, warnings, `Debug` nor [`Effective`] ever holds a secret, nor any value that was
//! refused: it may be a secret under the wrong key.

mod admin;
mod check;
mod effective;
mod effects;
mod environment;
mod problem;
mod read;
mod secrets;
mod sections;
pub mod settings;
mod traces;
mod tree;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::LazyLock;

use toml::{Table, Value};

pub use check::LEASE_MARGIN;
pub use effective::{Effective, Entry};
pub use environment::SHORT_NAMES;
pub use problem::{Problem, Problems, Warning};
pub use secrets::is_signing_secret;
pub use settings::Settings;
pub use tree::Origin;

/// The default configuration, every key with its sentence.
pub const DEFAULT: &str = include_str!("../../config/default.toml");

/// The same, parsed once: SIGHUP and the tests load again and again.
static DEFAULTS: LazyLock<Result<Table, Problem>> = LazyLock::new(|| parse(DEFAULT));

/// What the configuration is loaded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To run the service: everything it needs must be there and strong.
    Serve,
    /// To read the ledger or to call the service: what only the service needs may be missing, and
    /// secrets that this user may not read are warnings.
    Client,
}

/// Where a configuration file comes from.
#[derive(Clone)]
pub enum File {
    /// A path, as given by `--config`.
    Path(PathBuf),
    /// Its text.
    Text(String),
}

/// What to load from. Its `Debug` shows no values.
#[derive(Clone, Default)]
pub struct Inputs {
    /// The operator's file.
    pub file: Option<File>,
    /// The process's environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Dotted key and text, from the command line.
    pub flags: Vec<(String, String)>,
}

impl fmt::Debug for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inputs")
            .field("file", &self.file.is_some())
            .field("variables", &self.environment.len())
            .field("flags", &self.flags.len())
            .finish()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Path(_) => "File::Path",
            Self::Text(_) => "File::Text",
        })
    }
}

impl Inputs {
    /// Only the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a file at `path`.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(File::Path(path.into()));
        self
    }

    /// With the text of a file.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.file = Some(File::Text(text.into()));
        self
    }

    /// With these variables; `std::env::vars_os()` fits.
    #[must_use]
    pub fn with_environment<N, V>(mut self, vars: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        let vars = vars.into_iter().map(|(n, v)| (n.into(), v.into()));
        self.environment.extend(vars);
        self
    }

    /// With the dotted `key` set by a flag.
    #[must_use]
    pub fn with_flag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.flags.push((key.into(), value.into()));
        self
    }
}

impl Inputs {
    fn text_of(&self, file: &File) -> Result<String, Problem> {
        let path = match file {
            File::Text(text) => return Ok(text.clone()),
            File::Path(path) => path,
        };
        std::fs::read_to_string(path).map_err(|e| {
            let named = |(name, value): &(OsString, OsString)| {
                name == environment::CONFIG && value == path.as_os_str()
            };
            let key = if self.environment.iter().any(named) {
                environment::CONFIG
            } else {
                "--config"
            };
            Problem {
                key: key.to_owned(),
                what: format!("{} cannot be read ({})", path.display(), e.kind()),
                fix: "check the path and its permissions".to_owned(),
            }
        })
    }
}

/// A configuration that may be believed.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// What an operator should know all the same.
    pub warnings: Vec<Warning>,
    /// Each key with its masked value and its origin, for `check` to print.
    pub effective: Effective,
}

/// Lays the layers over one another, reads and checks them. Fails with every problem at once.
pub fn load(inputs: &Inputs, purpose: Purpose) -> Result<Loaded, Problems> {
    let (mut problems, mut warnings) = (Vec::new(), Vec::new());
    let mut tree = tree::Tree::default();
    match &*DEFAULTS {
        Ok(table) => tree.overlay(table.clone(), &Origin::Default, &mut problems),
        Err(problem) => problems.push(problem.clone()),
    }
    match inputs.file.as_ref().map(|f| inputs.text_of(f)).transpose() {
        Ok(Some(text)) => match parse(&text) {
            Ok(table) => tree.overlay(table, &Origin::File, &mut problems),
            Err(mut problem) => {
                if let Some(File::Path(path)) = &inputs.file {
                    problem.key = format!("{}, {}", path.display(), problem.key);
                }
                problems.push(problem);
            }
        },
        Ok(None) => {}
        Err(problem) => problems.push(problem),
    }
    let variables = &inputs.environment;
    environment::overlay(&mut tree, variables, &mut problems, &mut warnings);
    for (key, text) in &inputs.flags {
        let value = Value::String(text.clone());
        tree.set(key.clone(), value, Origin::Flag, &mut problems);
    }

    if let Some(File::Path(path)) = &inputs.file
        && tree.holds_secrets_from(&Origin::File)
        && secrets::is_open_to_others(path)
    {
        warnings.push(Warning {
            key: "--config".to_owned(),
            what: "holds secrets and can be read by other users; chmod 0400 it, or keep them in \
                   files of their own (K_file)"
                .to_owned(),
            variable: false,
        });
    }

    let mut reader = read::Reader::new(&tree, purpose, variables);
    let settings = sections::settings(&mut reader);
    check::check(&mut reader, &settings);
    reader.leftovers();
    problems.append(&mut reader.problems);
    warnings.append(&mut reader.warnings);
    if problems.is_empty() {
        Ok(Loaded {
            settings,
            warnings,
            effective: Effective::of(&tree),
        })
    } else {
        // A mistyped variable is often why another is missing.
        problems.extend(
            warnings
                .into_iter()
                .filter(|w| w.variable)
                .map(|w| Problem {
                    key: w.key,
                    what: w.what,
                    fix: "correct its name, or unset it".to_owned(),
                }),
        );
        Err(Problems(problems))
    }
}

/// Parses TOML. The parser's own report quotes the line, which may hold a secret: only its place and
/// its first words are repeated.
fn parse(text: &str) -> Result<Table, Problem> {
    text.parse().map_err(|e: toml::de::Error| {
        let before = e.span().and_then(|s| text.get(..s.start)).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        Problem {
            key: format!("line {line}, column {column}"),
            what: "is not TOML".to_owned(),
            fix: format!("the parser says: {}", e.message()),
        }
    })
}
