//! Log lines.
//!
//! The rule for whoever writes one: the message can be read alone and never changes (`"operation
//! settled"`), identifiers and numbers are fields (`operation = %name`). Bodies, tokens, secrets and
//! signatures are never fields.
//!
//! Lines go to standard error, as text for people and as one JSON object a line for machines. The
//! subscriber is global and set once; tests that want to see lines make their own with
//! [`subscriber`] and `tracing::subscriber::with_default`.

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// For people, with colours.
    Coloured,
    /// For people.
    Text,
    /// One JSON object a line, fields at its top level.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The filter is not a list of directives.
    #[error("log.filter is not a list of tracing directives such as info,hookledger::store=debug")]
    Filter,
    /// It was set up before.
    #[error("logging has been set up already")]
    Twice,
}

/// A subscriber that writes to `writer`.
pub fn subscriber<W>(
    filter: &str,
    style: Style,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, Error>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder()
        .parse(filter)
        .map_err(|_| Error::Filter)?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(style == Style::Coloured);
    Ok(match style {
        Style::Coloured | Style::Text => Box::new(lines.finish()),
        Style::Json => Box::new(
            lines
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .finish(),
        ),
    })
}

/// Sets the process's subscriber. `std::io::stderr` is a writer.
pub fn init<W>(filter: &str, style: Style, writer: W) -> Result<(), Error>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    subscriber(filter, style, writer)?
        .try_init()
        .map_err(|_| Error::Twice)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(filter: &str, style: Style, act: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = subscriber(filter, style, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, act);
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_has_one_object_a_line_with_fields_beside_the_message() {
        let text = written("info", Style::Json, || {
            tracing::info!(operation = "batches/a", attempts = 3, "operation settled");
            tracing::debug!("not shown");
        });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!(line["message"], "operation settled");
        assert_eq!(line["operation"], "batches/a");
        assert_eq!(line["attempts"], 3);
        assert_eq!(line["level"], "INFO");
    }

    #[test]
    fn text_is_coloured_only_when_asked_and_cannot_be_forged_by_a_value() {
        let act = || tracing::warn!(kind = "a\nERROR forged\u{1b}[2J", "delivery refused");
        let plain = written("warn", Style::Text, act);
        assert_eq!(plain.lines().count(), 1, "{plain}");
        assert!(!plain.contains('\u{1b}'), "{plain}");
        assert!(plain.contains("delivery refused"));
        assert!(written("warn", Style::Coloured, act).contains('\u{1b}'));
    }

    #[test]
    fn a_bad_filter_is_an_error() {
        assert!(matches!(
            init("hookledger=loud", Style::Text, std::io::sink),
            Err(Error::Filter)
        ));
    }
}
