//! Everything the program prints.
//!
//! One JSON document with `--json`; otherwise tables, ruled on a terminal and merely aligned in a
//! pipe. Much of what is shown was written by strangers (event types, operation names, headers), so
//! control characters never reach a terminal as they are. A reader that closes the pipe early
//! (`| head`) is no failure.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};

use comfy_table::{ContentArrangement, Table, TableComponent, presets};
use serde_json::Value;

use super::failure::Failure;

/// A column: its heading and the field it shows.
pub(super) type Column = (&'static str, &'static str);

/// Where a command's answer goes.
#[derive(Debug)]
pub(super) struct Output {
    json: bool,
    terminal: bool,
    following: bool,
}

impl Output {
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            terminal: io::stdout().is_terminal(),
            following: false,
        }
    }

    /// Whether the one thing to print is a JSON document.
    pub(super) const fn is_json(&self) -> bool {
        self.json
    }

    /// The same for answers that follow one another: a document a line.
    pub(super) const fn following(&self) -> Self {
        Self {
            json: self.json,
            terminal: self.terminal,
            following: true,
        }
    }

    /// Makes room for an answer that takes the place of the one before.
    pub(super) fn again(&self) -> Result<(), Failure> {
        if self.terminal && !self.json {
            write("\u{1b}[H\u{1b}[J")
        } else {
            Ok(())
        }
    }

    /// The document, or `text` of it.
    pub(super) fn answer(
        &self,
        document: &Value,
        text: impl FnOnce(&Self) -> String,
    ) -> Result<(), Failure> {
        if self.json {
            let line = if self.following {
                serde_json::to_string(document)
            } else {
                serde_json::to_string_pretty(document)
            };
            let mut line = line.map_err(|_| Failure::failed("the answer is no JSON"))?;
            line.push('\n');
            write(&line)
        } else {
            write(&text(self))
        }
    }

    /// A list of records under `field`, and where the next page begins.
    pub(super) fn list(
        &self,
        page: &Value,
        field: &str,
        columns: &[Column],
    ) -> Result<(), Failure> {
        let rows = page.get(field).and_then(Value::as_array);
        self.answer(page, |out| {
            let rows = rows.map(Vec::as_slice).unwrap_or_default();
            if rows.is_empty() {
                return format!("no {field}\n");
            }
            let mut text = out.table(rows, columns);
            if let Some(cursor) = page.get("next_cursor").and_then(Value::as_str) {
                _ = writeln!(text, "there are more: --cursor {}", printable(cursor));
            }
            text
        })
    }

    /// Records as a table.
    pub(super) fn table(&self, rows: &[Value], columns: &[Column]) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        if self.terminal {
            table.set_style(TableComponent::HeaderLines, '─');
            table.set_style(TableComponent::MiddleHeaderIntersections, '─');
        }
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(columns.iter().map(|(heading, _)| *heading));
        for row in rows {
            table.add_row(columns.iter().map(|(_, field)| cell(row.get(*field))));
        }
        let mut text = String::new();
        for line in table.lines() {
            _ = writeln!(text, "{}", line.trim());
        }
        text
    }
}

/// Says what went wrong, on standard error.
pub(super) fn complain(failure: &Failure) {
    if *failure == Failure::Silent {
        return;
    }
    note(&failure.to_string());
}

/// Says what an operator should know, on standard error.
pub(super) fn note(text: &str) {
    let text = format!("hookledger: {}\n", printable_lines(text));
    // Nobody is left to be told when this cannot be written.
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

/// Fields one below the other, those that are absent left out.
pub(super) fn fields(record: &Value, names: &[&str]) -> String {
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for name in names {
        let value = record.get(*name).filter(|v| !v.is_null());
        if let Some(value) = value {
            _ = writeln!(text, "{name:width$}  {}", cell(Some(value)));
        }
    }
    text
}

/// One value as text for people: nothing for null, texts without quotes.
pub(super) fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => printable(text),
        Some(Value::Bool(true)) => "yes".to_owned(),
        Some(Value::Bool(false)) => "no".to_owned(),
        Some(other) => printable(&other.to_string()),
    }
}

/// `text` without anything that a terminal would obey.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(shown).collect()
}

/// As [`printable`], keeping line breaks and tabs: for bodies.
pub(super) fn printable_lines(text: &str) -> String {
    let keep = |c| {
        if matches!(c, '\n' | '\t') {
            c
        } else {
            shown(c)
        }
    };
    text.chars().map(keep).collect()
}

fn shown(c: char) -> char {
    let reorders =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if c.is_control() || reorders {
        '\u{fffd}'
    } else {
        c
    }
}

fn write(text: &str) -> Result<(), Failure> {
    raw(text.as_bytes())
}

/// What is made for another program, byte for byte.
pub(super) fn raw(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("cannot write the answer: {error}")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stranger_s_text_cannot_steer_the_terminal() {
        let rows = [
            json!({"a": "x\u{1b}[2J\ny", "b": null}),
            json!({"a": "longer", "b": true}),
        ];
        let out = Output {
            json: false,
            terminal: false,
            following: false,
        };
        let text = out.table(&rows, &[("A", "a"), ("B", "b")]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(!text.contains('\u{1b}'));
        assert_eq!(lines[0].find('B'), lines[2].find("yes"), "{text}");
        assert_eq!(
            printable_lines("a\nb\tc\r\u{202e}"),
            "a\nb\tc\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn absent_fields_are_left_out() {
        let text = fields(&json!({"id": 7, "name": null}), &["id", "name", "none"]);
        assert_eq!(text, "id    7\n");
    }
}
