//! `docs/TESTING.md` is whole: each row of the slow suites and each fail point stands in it, and nothing
//! else does.

use std::collections::BTreeSet;
use std::path::Path;

use super::verification_doc::rust_files;

const DOCUMENT: &str = include_str!("../../docs/TESTING.md");
const CI: &str = include_str!("../../.ci/run");

/// The sources below `folder`, in one text.
fn sources(folder: &str) -> String {
    let mut files = Vec::new();
    rust_files(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join(folder),
        &mut files,
    );
    files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect()
}

/// The texts in quotes that follow `before` in `source`.
fn quoted_after<'s>(source: &'s str, before: &str) -> BTreeSet<&'s str> {
    let found = source.split(before).skip(1);
    found.filter_map(|rest| rest.split('"').next()).collect()
}

/// The first cell of each line of the tables between one heading and the next.
fn first_cells(heading: &str) -> BTreeSet<String> {
    let (_, section) = DOCUMENT.split_once(heading).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.split('|').nth(1));
    cells
        .map(|cell| cell.trim().trim_matches('`').to_owned())
        .filter(|cell| !cell.is_empty() && !cell.starts_with("---"))
        .filter(|cell| !["row", "name"].contains(&cell.as_str()))
        .collect()
}

#[test]
fn every_row_of_the_slow_suites_is_described() {
    let source = sources("tests/proof");
    let rows: BTreeSet<String> = quoted_after(&source, "        name: \"")
        .union(&quoted_after(&source, "[Row {\n    name: \""))
        .map(ToString::to_string)
        .collect();
    assert!(rows.len() > 20, "{rows:?}");
    let described: BTreeSet<String> = first_cells("\n## Crashes and faults\n")
        .iter()
        .map(|cell| cell.replace(' ', "-"))
        .collect();
    assert_eq!(rows, described);
}

#[test]
fn every_fail_point_is_described_and_bears_the_name_that_ci_looks_for() {
    let source = sources("src");
    let mut points = quoted_after(&source, "failpoint!(\"");
    points.extend(quoted_after(&source, "hit(\""));
    points.extend(quoted_after(&source, "is_on(\""));
    let described = first_cells("\n## Fail points\n");
    for point in &points {
        assert!(described.contains(*point), "{point} is not described");
    }
    for name in &described {
        let loops = name.starts_with("fp-loop-");
        assert!(
            loops || points.contains(name.as_str()),
            "there is no {name}"
        );
        // The names in `.ci/run` are an expression; their letters are what is compared here.
        let letter = name.strip_prefix("fp-").and_then(|n| n.chars().next());
        let letter = letter.unwrap_or_else(|| panic!("{name}: .ci/run looks for fp-"));
        let (_, looked_for) = CI.split_once("'fp-(").unwrap();
        let looked_for = looked_for.split('\'').next().unwrap();
        assert!(looked_for.contains(letter), "{name} is not looked for");
    }
}
