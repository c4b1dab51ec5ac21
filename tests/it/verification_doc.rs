//! `docs/VERIFICATION.md` is true: its files and tests exist, and no file of the verifier is missing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const DOCUMENT: &str = include_str!("../../docs/VERIFICATION.md");

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The sources below `folder`.
pub(crate) fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// The names of the functions below a test attribute.
fn tests_in(source: &str) -> impl Iterator<Item = String> {
    source
        .split("#[test]")
        .chain(source.split("#[tokio::test"))
        .skip(1)
        .filter_map(|after| {
            let (head, rest) = after.split_once("fn ")?;
            let is_next = head
                .lines()
                .all(|l| l.trim().is_empty() || !l.contains('{'));
            let name: String = rest
                .chars()
                .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
                .collect();
            is_next.then_some(name)
        })
}

/// What stands between back ticks in a cell.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

struct Row<'d> {
    number: usize,
    files: Vec<&'d str>,
    tests: Vec<&'d str>,
}

fn rows(document: &str) -> Vec<Row<'_>> {
    document
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, number, _, _, files, tests, _] = cells.as_slice() else {
                return None;
            };
            Some(Row {
                number: number.parse().ok()?,
                files: quoted(files),
                tests: quoted(tests),
            })
        })
        .collect()
}

#[test]
fn every_file_and_every_test_of_the_table_exists() {
    let mut files = Vec::new();
    rust_files(&root().join("src"), &mut files);
    rust_files(&root().join("tests"), &mut files);
    let known: BTreeSet<String> = files
        .iter()
        .flat_map(|path| {
            let source = std::fs::read_to_string(path).unwrap();
            tests_in(&source).collect::<Vec<_>>()
        })
        .collect();
    let rows = rows(DOCUMENT);
    assert!(rows.len() > 15, "only {} rows are understood", rows.len());
    for (i, row) in rows.iter().enumerate() {
        assert_eq!(row.number, i + 1, "the order of the layers");
        assert!(
            !row.files.is_empty() && !row.tests.is_empty(),
            "row {}",
            row.number
        );
        for file in &row.files {
            assert!(root().join(file).is_file(), "{file}");
        }
        for test in &row.tests {
            assert!(known.contains(*test), "there is no test {test}");
        }
    }
}

#[test]
fn every_file_of_the_verifier_is_in_the_table() {
    let listed: BTreeSet<&str> = rows(DOCUMENT).into_iter().flat_map(|r| r.files).collect();
    let mut files = Vec::new();
    rust_files(&root().join("src/verify"), &mut files);
    for path in files {
        let file = path.strip_prefix(root()).unwrap().to_str().unwrap();
        assert!(
            file.ends_with("_tests.rs") || listed.contains(file),
            "{file}"
        );
    }
}
