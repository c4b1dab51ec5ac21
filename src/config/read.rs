//! Typed reading that goes on after a mistake.
//!
//! Each getter answers with a value whatever happens; what was wrong is noted, and the stand-in is
//! never used, because settings are handed out only when nothing was noted. Every key asked for is
//! remembered: what is left over at the end is unknown, and the keys asked for are what it is
//! compared with to guess what was meant. Checks across keys skip those already found wrong.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use toml::Value;
use url::Url;

use super::Purpose;
use super::problem::{Problem, Warning};
use super::tree::{Leaf, Origin, Tree, secret_base};

/// Longest duration anybody can mean: everything stays far from the ends of time.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How alike two keys must be for one to be taken for the other, 0 to 1.
const ALIKE: f64 = 0.75;

/// The layers, being read.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub(super) tree: &'a Tree,
    pub(super) purpose: Purpose,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Warning>,
    variables: &'a [(std::ffi::OsString, std::ffi::OsString)],
    asked: BTreeSet<String>,
    sections: BTreeSet<String>,
    wrong: BTreeSet<String>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        tree: &'a Tree,
        purpose: Purpose,
        variables: &'a [(std::ffi::OsString, std::ffi::OsString)],
    ) -> Self {
        Self {
            tree,
            purpose,
            problems: Vec::new(),
            warnings: Vec::new(),
            variables,
            asked: BTreeSet::new(),
            sections: BTreeSet::new(),
            wrong: BTreeSet::new(),
        }
    }

    /// Notes that `key` is wrong, and where it was set.
    pub(super) fn problem(&mut self, key: &str, what: impl Into<String>, fix: impl Into<String>) {
        let mut what = what.into();
        if let Some(Origin::Env(name)) = self.origin(key) {
            what = format!("{what} (set by {name})");
        }
        self.wrong.insert(key.to_owned());
        self.problems.push(Problem {
            key: key.to_owned(),
            what,
            fix: fix.into(),
        });
    }

    pub(super) fn warn(&mut self, key: &str, what: impl Into<String>) {
        self.warnings.push(Warning {
            key: key.to_owned(),
            what: what.into(),
            variable: false,
        });
    }

    /// Whether all of these were read without a complaint.
    pub(super) fn sound(&self, keys: &[&str]) -> bool {
        !keys.iter().any(|k| self.wrong.contains(*k))
    }

    fn origin(&self, key: &str) -> Option<&Origin> {
        ["", "_file", "_env"]
            .iter()
            .find_map(|suffix| self.tree.get(&format!("{key}{suffix}")))
            .map(|leaf| &leaf.origin)
    }

    /// A variable of the environment this configuration was loaded with.
    pub(super) fn variable(&self, name: &str) -> Option<&'a std::ffi::OsStr> {
        self.variables
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_os_str())
    }

    pub(super) fn leaf(&mut self, key: &str) -> Option<&'a Leaf> {
        self.asked.insert(key.to_owned());
        self.tree.get(key)
    }

    /// The names under a section of tables. An empty table in it is a name too; a value in the
    /// place of a table is left for [`Reader::leftovers`].
    pub(super) fn tables(&mut self, section: &str) -> Vec<String> {
        let names = self.tree.names_under(section);
        let below = names.iter().map(|name| format!("{section}.{name}"));
        for key in below.chain([section.to_owned()]) {
            let empty = |v: &Value| match v {
                Value::Table(_) => true,
                Value::Array(items) => items.is_empty(),
                _ => false,
            };
            if self.tree.get(&key).is_some_and(|leaf| empty(&leaf.value)) {
                self.asked.insert(key.clone());
            }
            self.sections.insert(key);
        }
        names
    }

    /// The text at `key`, or at `otherwise` when it is not set.
    fn value(&mut self, key: &str, otherwise: Option<&str>) -> Option<(String, &'a Leaf)> {
        let own = self.leaf(key).map(|leaf| (key.to_owned(), leaf));
        own.or_else(|| {
            let key = otherwise?;
            self.leaf(key).map(|leaf| (key.to_owned(), leaf))
        })
    }

    /// A text, parsed. `kind` completes "is not …", `example` completes "write …".
    fn parsed<T>(
        &mut self,
        (key, otherwise): (&str, Option<&str>),
        (kind, example): (&str, &str),
        stand_in: T,
        parse: impl FnOnce(&Leaf) -> Option<T>,
    ) -> T {
        let Some((at, leaf)) = self.value(key, otherwise) else {
            self.problem(key, "is missing", format!("write {example}"));
            return stand_in;
        };
        parse(leaf).unwrap_or_else(|| {
            self.problem(&at, format!("is not {kind}"), format!("write {example}"));
            self.wrong.insert(key.to_owned());
            stand_in
        })
    }

    pub(super) fn string(&mut self, key: &str, kind: &str, example: &str) -> String {
        self.parsed((key, None), (kind, example), String::new(), |leaf| {
            leaf.value.as_str().map(str::to_owned)
        })
    }

    pub(super) fn string_or(&mut self, key: &str, otherwise: &str, example: &str) -> String {
        let keys = (key, Some(otherwise));
        self.parsed(keys, ("a text", example), String::new(), |leaf| {
            leaf.value.as_str().map(str::to_owned)
        })
    }

    pub(super) fn path(&mut self, key: &str) -> PathBuf {
        let what = ("a path", "the path of a file or directory");
        self.parsed((key, None), what, PathBuf::new(), |leaf| {
            let text = leaf.value.as_str()?;
            (!text.is_empty() && !text.contains('\0')).then(|| PathBuf::from(text))
        })
    }

    /// A path, or `None` when the text is empty.
    pub(super) fn path_if_set(&mut self, key: &str) -> Option<PathBuf> {
        let what = ("a path", "the path of a file");
        self.parsed((key, None), what, None, |leaf| {
            let text = leaf.value.as_str().filter(|text| !text.contains('\0'))?;
            Some((!text.is_empty()).then(|| PathBuf::from(text)))
        })
    }

    /// Anything with one obvious textual form.
    pub(super) fn textual<T: FromStr>(&mut self, key: &str, what: (&str, &str), stand_in: T) -> T {
        self.parsed((key, None), what, stand_in, |leaf| {
            leaf.value.as_str()?.trim().parse().ok()
        })
    }

    pub(super) fn duration(&mut self, key: &str) -> Duration {
        self.duration_of(key, None)
    }

    pub(super) fn duration_or(&mut self, key: &str, otherwise: &str) -> Duration {
        self.duration_of(key, Some(otherwise))
    }

    /// A duration, or `None` when it is zero.
    pub(super) fn duration_or_off(&mut self, key: &str) -> Option<Duration> {
        let off = self
            .tree
            .get(key)
            .and_then(|leaf| humantime::parse_duration(leaf.value.as_str()?.trim()).ok())
            .is_some_and(|d| d.is_zero());
        self.asked.insert(key.to_owned());
        (!off).then(|| self.duration(key))
    }

    fn duration_of(&mut self, key: &str, otherwise: Option<&str>) -> Duration {
        let what = (
            "a duration of 1ms to 100 years, with its unit",
            "a number and a unit, such as 100ms, 90s, 6h or 7d, in quotes",
        );
        self.parsed((key, otherwise), what, Duration::ZERO, |leaf| {
            let d = humantime::parse_duration(leaf.value.as_str()?.trim()).ok()?;
            (Duration::from_millis(1)..=LONGEST)
                .contains(&d)
                .then_some(d)
        })
    }

    pub(super) fn size(&mut self, key: &str) -> u64 {
        let what = (
            "a size of at least one byte",
            "a number and a unit, such as 256KiB, 64MiB or 2GiB, in quotes",
        );
        self.parsed((key, None), what, 0, |leaf| {
            let size = match &leaf.value {
                Value::Integer(n) => u64::try_from(*n).ok()?,
                Value::String(text) => text.trim().parse::<ByteSize>().ok()?.as_u64(),
                _ => return None,
            };
            // The store counts in i64.
            (size > 0 && i64::try_from(size).is_ok()).then_some(size)
        })
    }

    /// A whole number within `min..=max`.
    pub(super) fn count<T>(&mut self, key: &str, min: T, max: T) -> T
    where
        T: TryFrom<i64> + PartialOrd + std::fmt::Display + Copy,
    {
        let kind = format!("a whole number from {min} to {max}");
        self.parsed((key, None), (&kind, &kind), min, |leaf| {
            let n = match &leaf.value {
                Value::Integer(n) => *n,
                Value::String(text) if leaf.origin.is_text() => text.trim().parse().ok()?,
                _ => return None,
            };
            T::try_from(n).ok().filter(|n| (min..=max).contains(n))
        })
    }

    pub(super) fn flag_or(&mut self, key: &str, otherwise: &str) -> bool {
        let what = ("true or false", "true or false");
        self.parsed((key, Some(otherwise)), what, false, |leaf| {
            match &leaf.value {
                Value::Boolean(b) => Some(*b),
                Value::String(text) if leaf.origin.is_text() => text.trim().parse().ok(),
                _ => None,
            }
        })
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(
        &mut self,
        key: &str,
        otherwise: Option<&str>,
        words: &[(&str, T)],
        stand_in: T,
    ) -> T {
        let list: Vec<String> = words.iter().map(|(w, _)| format!("\"{w}\"")).collect();
        let example = list.join(" or ");
        let kind = format!("one of {}", list.join(", "));
        self.parsed((key, otherwise), (&kind, &example), stand_in, |leaf| {
            let text = leaf.value.as_str()?;
            words.iter().find(|(w, _)| *w == text).map(|(_, t)| *t)
        })
    }

    /// A list of texts; from the environment, by comma.
    pub(super) fn list(&mut self, key: &str, otherwise: Option<&str>) -> Vec<String> {
        let what = ("a list of texts", "[\"one\", \"two\"]");
        self.parsed((key, otherwise), what, Vec::new(), texts)
    }

    /// A list of HTTP addresses that name no user and no password; from the environment, by comma.
    pub(super) fn urls(&mut self, key: &str, otherwise: &str) -> Vec<Url> {
        let what = (
            "a list of http or https addresses without user and password",
            "[\"https://example.com/path\"]",
        );
        self.parsed((key, Some(otherwise)), what, Vec::new(), |leaf| {
            let sound = |text: &String| {
                let url = Url::parse(text.trim()).ok()?;
                let plain = matches!(url.scheme(), "http" | "https")
                    && url.username().is_empty()
                    && url.password().is_none();
                plain.then_some(url)
            };
            texts(leaf)?.iter().map(sound).collect()
        })
    }

    /// An HTTP address that names no user and no password; `None` when it is not set.
    pub(super) fn url(&mut self, key: &str) -> Option<Url> {
        let leaf = self.leaf(key)?;
        let text = leaf.value.as_str().map(str::trim);
        if text == Some("") {
            return None;
        }
        let url = text.and_then(|t| Url::parse(t).ok());
        let fix = "write an address such as https://example.com/path";
        match url {
            Some(url) if !matches!(url.scheme(), "http" | "https") => {
                self.problem(key, "is neither http nor https", fix);
                None
            }
            Some(url) if !url.username().is_empty() || url.password().is_some() => {
                let fix = "take them out; use a secret key of this section for credentials";
                self.problem(key, "holds a user name or password", fix);
                None
            }
            Some(url) => Some(url),
            None => {
                self.problem(key, "is not an absolute URL", fix);
                None
            }
        }
    }

    /// Everything that was set and never asked for.
    pub(super) fn leftovers(&mut self) {
        let unknown: Vec<(String, Leaf)> = self
            .tree
            .leaves()
            .filter(|(key, _)| !self.asked.contains(*key))
            .map(|(key, leaf)| (key.to_owned(), leaf.clone()))
            .collect();
        for (key, leaf) in unknown {
            let is_section =
                self.sections.contains(&key) || self.asked.iter().any(|k| is_under(k, &key));
            if is_section {
                if leaf.value.as_table().is_none_or(|t| !t.is_empty()) {
                    let fix = format!("set the keys in it: [{key}] and a line for each");
                    self.problem(&key, "is a section, not a value", fix);
                }
                continue;
            }
            let fix = match self.meant(&key) {
                Some(near) => format!("did you mean {near}?"),
                None => "remove it; config/default.toml lists every key".to_owned(),
            };
            self.problem(&key, "is not a key", fix);
        }
    }

    /// The key that somebody who wrote `key` probably meant.
    fn meant(&self, key: &str) -> Option<String> {
        let (parent, name) = key.rsplit_once('.').unwrap_or(("", key));
        if let Some(inside) = self.asked.iter().find(|k| is_under(key, k)) {
            return Some(inside.clone());
        }
        let score = |known: &str| {
            let (of, last) = known.rsplit_once('.').unwrap_or(("", known));
            if of == parent && !name.is_empty() && last.starts_with(name) {
                return 1.0;
            }
            strsim::jaro_winkler(known, key)
                .min(strsim::normalized_damerau_levenshtein(known, key) + 0.1)
        };
        self.asked
            .iter()
            .filter(|k| same_places(k, key))
            .filter(|k| secret_base(k).is_none() || key.ends_with("_file") || key.ends_with("_env"))
            .map(|k| (score(k), k))
            .filter(|(s, _)| *s >= ALIKE)
            .max_by(|(a, _), (b, _)| a.total_cmp(b))
            .map(|(_, k)| k.clone())
    }
}

fn is_under(key: &str, section: &str) -> bool {
    key.strip_prefix(section)
        .is_some_and(|rest| rest.starts_with('.'))
}

/// Whether two keys agree on the places in lists they go through: nobody mistypes those.
fn same_places(a: &str, b: &str) -> bool {
    let place = |segment: &str| segment.parse::<usize>().ok();
    a.split('.').zip(b.split('.')).all(|(a, b)| {
        let (a, b) = (place(a), place(b));
        a == b || a.is_none() || b.is_none()
    })
}

/// The texts of a list leaf.
pub(super) fn texts(leaf: &Leaf) -> Option<Vec<String>> {
    match &leaf.value {
        Value::Array(items) => items
            .iter()
            .map(|v| v.as_str().map(str::to_owned))
            .collect(),
        Value::String(text) if leaf.origin.is_text() => Some(split(text)),
        _ => None,
    }
}

/// The parts between commas and line ends, trimmed, without empty ones.
pub(super) fn split(text: &str) -> Vec<String> {
    text.split([',', '\n', '\r'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect()
}
