//! `events curl`: the command of [`crate::receive::curl`], for a delivery as the API shows it.

use std::io::Write as _;
use std::path::Path;

use data_encoding::BASE64;
use serde_json::Value;
use url::Url;

use super::failure::Failure;
use crate::config::Settings;
pub(super) use crate::receive::curl::{Body, Delivery, Fresh, NoCommand, Target, command};

impl From<NoCommand> for Failure {
    fn from(why: NoCommand) -> Self {
        match why {
            NoCommand::Unsigned(_) => Self::usage(why.to_string()),
            NoCommand::Unfit => Self::failed(why.to_string()),
        }
    }
}

/// Reads the document of an event.
pub(super) fn read(event: &Value) -> Result<Delivery, Failure> {
    let text = |name: &str| event.get(name).and_then(Value::as_str);
    let decode = |text: &str| BASE64.decode(text.as_bytes()).ok();
    let header = |pair: &Value| {
        let name = pair.get(0)?.as_str()?.to_owned();
        let value = pair.get(1)?;
        let bytes = match value.as_str() {
            Some(text) => text.as_bytes().to_vec(),
            None => decode(value.get("base64")?.as_str()?)?,
        };
        Some((name, bytes))
    };
    let read = || {
        Some(Delivery {
            source: text("source")?.to_owned(),
            headers: event
                .get("headers")?
                .as_array()?
                .iter()
                .map(header)
                .collect::<Option<_>>()?,
            body: decode(text("body_base64")?)?,
        })
    };
    read().ok_or_else(|| Failure::failed("the event is not in the form this version knows"))
}

/// Where it is sent to: `base` as somebody typed it, else as configured.
pub(super) fn target(
    settings: &Settings,
    source: &str,
    base: Option<&str>,
) -> Result<Target, Failure> {
    let base = base.map(|text| {
        let url = Url::parse(text).ok();
        url.filter(|url| matches!(url.scheme(), "http" | "https") && url.query().is_none())
            .ok_or_else(|| Failure::usage("--url takes an address such as http://127.0.0.1:8080"))
    });
    let base = base.transpose()?;
    Ok(Target::of(settings, source, base.as_ref().map(Url::as_str)))
}

/// Writes a file that only its owner may read.
pub(super) fn write_file(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let mut file = std::fs::File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)?;
    // The mode above is only for a new file.
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_of_another_form_are_refused() {
        let good = json!({"source": "gemini", "headers": [["a", {"base64": "/w=="}]], "body_base64": "AA=="});
        let found = read(&good).unwrap();
        assert_eq!(found.headers, [("a".to_owned(), vec![0xff])]);
        assert_eq!(found.body, [0]);
        for missing in ["source", "headers", "body_base64"] {
            let mut bad = good.clone();
            bad.as_object_mut().unwrap().remove(missing);
            assert!(read(&bad).is_err());
        }
    }
}
