//! JSON set out line by line, as long as that stays readable.
//!
//! Problem: a body of 256 KiB that is nested deeply is tens of megabytes once each line is indented; one
//! delivery could make a page that is slow to make, and is made again whenever something changes.

use std::io::{self, Write};

use serde_json::Value;

/// Most bytes of it.
const MOST: usize = 1024 * 1024;

/// The value set out, or nothing if that would be longer than [`MOST`].
pub(super) fn pretty(json: &Value) -> Option<String> {
    let mut text = Capped(Vec::new());
    serde_json::to_writer_pretty(&mut text, json).ok()?;
    String::from_utf8(text.0).ok()
}

struct Capped(Vec<u8>);

impl Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_far_longer_than_it_came_is_left_as_it_came() {
        let plain = serde_json::json!({"a": [1]});
        assert_eq!(pretty(&plain).unwrap(), "{\n  \"a\": [\n    1\n  ]\n}");
        let (mut deep, wide) = (Value::from(vec![0; 10_000]), 100);
        for _ in 0..wide {
            deep = Value::from(vec![deep]);
        }
        assert_eq!(pretty(&deep), None);
    }
}
