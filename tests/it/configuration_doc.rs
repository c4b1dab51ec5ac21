//! `docs/CONFIGURATION.md` is what `config/default.toml` says. `UPDATE_DOCS=1` writes it anew.

use std::fmt::Write as _;

use crate::support::document;

const DEFAULTS: &str = include_str!("../../config/default.toml");
const HEAD: &str = "# Configuration

Every key with its default and its sentence. This page is made of
[config/default.toml](../config/default.toml), which is compiled in and is the default; a test compares the
two (`UPDATE_DOCS=1 cargo test --locked --test it configuration_doc` writes it). How the program is given
its configuration, its short names and its secrets stands in [OPERATIONS.md](OPERATIONS.md#configure).
";

/// Comments are gathered until something follows them: a section, a key, or an empty line.
fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut comment: Vec<&str> = Vec::new();
    let mut section = "";
    let mut in_table = false;
    let mut examples: Vec<&str> = Vec::new();
    let mut keys = 0;
    for line in DEFAULTS.lines() {
        if let Some(text) = line.strip_prefix('#') {
            comment.push(text);
        } else if line.is_empty() {
            if !comment.is_empty() {
                page.push('\n');
                paragraph(&mut page, &comment);
                comment.clear();
            }
        } else if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            show(&mut page, &mut examples);
            writeln!(page, "\n## [{section}]\n").unwrap();
            paragraph(&mut page, &comment);
            comment.clear();
            in_table = false;
        } else {
            let (key, value) = line.split_once(" = ").unwrap();
            if !in_table {
                page.push_str("\n| key | default | |\n|---|---|---|\n");
                in_table = true;
            }
            let (about, example) = split(&comment);
            writeln!(page, "| `{section}.{key}` | `{value}` | {about} |").unwrap();
            examples.extend(example);
            comment.clear();
            keys += 1;
        }
    }
    show(&mut page, &mut examples);
    assert!(keys > 70, "{keys}");
    page
}

/// The examples of a table's keys stand below it.
fn show(page: &mut String, examples: &mut Vec<&str>) {
    if !examples.is_empty() {
        page.push('\n');
        paragraph(page, examples);
        examples.clear();
    }
}

/// A sentence of one line, and the lines that are indented as an example.
fn split<'c>(comment: &[&'c str]) -> (String, Vec<&'c str>) {
    let (example, about): (Vec<&'c str>, Vec<&'c str>) =
        comment.iter().partition(|line| line.starts_with("   "));
    let about: Vec<_> = about.iter().map(|line| line.trim()).collect();
    (about.join(" "), example)
}

/// As it stands, an example in a block of its own.
fn paragraph(page: &mut String, comment: &[&str]) {
    let mut open = false;
    for line in comment {
        let is_example = line.starts_with("   ");
        if is_example != open {
            page.push_str(if is_example { "\n```text\n" } else { "```\n\n" });
            open = is_example;
        }
        let text = if is_example {
            line.get(3..)
        } else {
            line.strip_prefix(' ')
        };
        page.push_str(text.unwrap_or(line));
        page.push('\n');
    }
    if open {
        page.push_str("```\n");
    }
}

#[test]
fn the_page_is_what_the_defaults_say() {
    document::check("docs/CONFIGURATION.md", &page());
}
