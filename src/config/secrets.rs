//! Secrets, wherever they are kept, and whether they are good enough to guard a door.
//!
//! A secret `k` is a text, a file (`k_file`) or a variable (`k_env`). A file loses one trailing line
//! end, since editors and `echo` add it. Nothing here prints a secret, and no path either: somebody
//! who mixes up `X` and `X_FILE` puts the secret where the path belongs.
//!
//! A command that only reads the ledger must run for a person who may not read the service's
//! secrets, so there what cannot be read is a warning.

use std::io::Read;

use super::Purpose;
use super::environment::variable_for;
use super::read::{Reader, split, texts};
use crate::base::secret::{MIN_DISTINCT_CHARS, Secret};

/// Largest secret file read, bytes.
const MAX_FILE: u64 = 64 * 1024;

/// Fewest and most bytes of a Standard Webhooks key.
pub(super) const SIGNING_KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

impl Reader<'_> {
    /// The secret at `key`, if one is given.
    pub(super) fn secret(&mut self, key: &str) -> Option<Secret> {
        let text = self.secret_text(key)?;
        self.checked(key, text)
    }

    /// The secrets at `key`: a list, or a file or variable with one a line or by comma.
    pub(super) fn secrets(&mut self, key: &str) -> Vec<Secret> {
        let listed = self.leaf(key).map(texts);
        let parts = match listed {
            Some(Some(parts)) => parts,
            Some(None) => {
                self.secret_problem(key, "is not a list of texts", "write [\"whsec_...\"]");
                return Vec::new();
            }
            None => match self.secret_text(key) {
                Some(text) => split(&text),
                None => return Vec::new(),
            },
        };
        parts
            .into_iter()
            .filter_map(|part| self.checked(key, part))
            .collect()
    }

    fn checked(&mut self, key: &str, text: String) -> Option<Secret> {
        let what = if text.trim().is_empty() {
            "is empty"
        } else if text.trim() != text {
            "begins or ends with white space"
        } else if text.bytes().any(|b| !(b' '..=b'~').contains(&b)) {
            "has characters that no header can carry"
        } else {
            return Some(Secret::new(text));
        };
        let fix = "use the secret alone, in visible ASCII, or leave the key out";
        self.secret_problem(key, what, fix);
        None
    }

    /// The raw text, if there is one.
    fn secret_text(&mut self, key: &str) -> Option<String> {
        let file = self.leaf(&format!("{key}_file"));
        let variable = self.leaf(&format!("{key}_env"));
        if let Some(leaf) = self.leaf(key) {
            let Some(text) = leaf.value.as_str() else {
                self.secret_problem(key, "is not a text", "write it in quotes");
                return None;
            };
            // In a file an empty text says "not set"; from elsewhere it is a slip.
            let unset = text.is_empty() && !leaf.origin.is_text();
            return (!unset).then(|| text.to_owned());
        }
        if let Some(leaf) = file {
            let path = leaf.value.as_str().unwrap_or_default().to_owned();
            return self.secret_file(key, &path);
        }
        let name = variable?.value.as_str().unwrap_or_default().to_owned();
        let text = self.variable(&name).and_then(|v| v.to_str());
        if text.is_none() {
            // A text that is no name may be the secret itself.
            let (what, fix) = if is_variable(&name) {
                (
                    format!("is to come from the variable {name}, which is not set"),
                    format!("set {name}, or name another in {key}_env"),
                )
            } else {
                (
                    "is to come from a variable that is not set".to_owned(),
                    format!("write the name of a variable in {key}_env"),
                )
            };
            self.secret_problem(key, &what, &fix);
        }
        text.map(str::to_owned)
    }

    fn secret_file(&mut self, key: &str, path: &str) -> Option<String> {
        match read_file(path) {
            Ok((text, readable_by_others)) => {
                if readable_by_others {
                    self.warn(
                        key,
                        "its file can be read by other users; chmod 0400 it, owned by the \
                         service's user",
                    );
                }
                Some(text)
            }
            Err((what, fix)) => {
                self.secret_problem(key, what, fix);
                None
            }
        }
    }

    fn secret_problem(&mut self, key: &str, what: &str, fix: &str) {
        match self.purpose {
            Purpose::Serve => self.problem(key, what, fix),
            Purpose::Client => self.warn(key, format!("{what}; {fix}")),
        }
    }
}

type Wrong = (&'static str, &'static str);

/// The file's text without one trailing line end, and whether others than its owner may read it.
fn read_file(path: &str) -> Result<(String, bool), Wrong> {
    let wrong = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => (
            "names a file that does not exist",
            "check the path; give the secret itself without _FILE",
        ),
        std::io::ErrorKind::PermissionDenied => (
            "names a file that this user may not read",
            "chown it to the service's user: a compose file secret keeps the owner and mode it has \
             on the host, so a root-owned 0600 file stays unreadable in the container",
        ),
        _ => (
            "names a file that cannot be read",
            "check that the path is a file",
        ),
    };
    let file = std::fs::File::open(path).map_err(wrong)?;
    let open_to_others = is_readable_by_others(&file.metadata().map_err(wrong)?);
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(wrong)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err((
            "names a file larger than 64 KiB",
            "put the secret alone into it",
        ));
    }
    let mut text = String::from_utf8(bytes).map_err(|_| {
        (
            "names a file that is not UTF-8",
            "put the secret alone into it",
        )
    })?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    if text.trim().is_empty() {
        return Err(("names a file that is empty", "put the secret into it"));
    }
    Ok((text, open_to_others))
}

fn is_readable_by_others(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o044 != 0
}

/// Whether this is how variables are named, and not how secrets look.
fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        && (name.contains('_') || name.len() < 16)
}

/// Whether others than its owner may read the file.
pub(super) fn is_open_to_others(path: &std::path::Path) -> bool {
    path.metadata().is_ok_and(|m| is_readable_by_others(&m))
}

/// Whether a source's signing secret holds a key of `SIGNING_KEY_BYTES` varied bytes.
///
/// `whsec_` is optional. The documented form is base64 in any of its spellings; the provider has
/// also issued secrets that are the key's own characters, so visible ASCII that is not base64 is taken
/// literally.
/// What decodes to a key of a wrong length is a bad key, not a text that happens to look like one.
pub fn is_signing_secret(secret: &Secret) -> bool {
    let text = secret.expose();
    if text.starts_with("whpk_") {
        return false;
    }
    let text = text.strip_prefix("whsec_").unwrap_or(text);
    match decoded(text) {
        Some(key) => is_key(&key),
        // Nobody hands out a key with white space in it: two secrets without their comma, perhaps.
        None => text.bytes().all(|b| b.is_ascii_graphic()) && is_key(text.as_bytes()),
    }
}

/// Whether an effect can sign with this: `whsec_` and the standard base64 of a key, which every
/// receiver reads, or a strong text.
pub(super) fn can_sign(secret: &Secret) -> bool {
    use data_encoding::{BASE64, BASE64_NOPAD};
    match secret.expose().strip_prefix("whsec_") {
        Some(encoded) => BASE64
            .decode(encoded.as_bytes())
            .or_else(|_| BASE64_NOPAD.decode(encoded.as_bytes()))
            .is_ok_and(|key| is_key(&key)),
        None => secret.weakness().is_none(),
    }
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD};
    [BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD]
        .iter()
        .find_map(|encoding| encoding.decode(text.as_bytes()).ok())
}

fn is_key(key: &[u8]) -> bool {
    SIGNING_KEY_BYTES.contains(&key.len()) && is_varied(key)
}

fn is_varied(key: &[u8]) -> bool {
    let distinct: std::collections::BTreeSet<_> = key.iter().collect();
    distinct.len() >= MIN_DISTINCT_CHARS
}

/// A secret that must be there, and strong.
pub(super) fn needed(r: &mut Reader<'_>, key: &str, secret: Option<&Secret>) {
    if secret.is_none() && r.sound(&[key]) {
        let name = variable_for(key);
        let fix = format!(
            "set {name} or {name}_FILE, for instance to what `hookledger secret new` prints"
        );
        r.problem(key, "is missing", fix);
    }
    strong(r, key, secret);
}

/// A secret that must be strong if it is there.
pub(super) fn strong(r: &mut Reader<'_>, key: &str, secret: Option<&Secret>) {
    if let Some(weakness) = secret.and_then(Secret::weakness)
        && r.sound(&[key])
    {
        let fix = "make a new one, for instance with `hookledger secret new`";
        r.problem(key, weakness.to_string(), fix);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(text: &str) -> bool {
        is_signing_secret(&Secret::new(text))
    }

    #[test]
    fn a_signing_secret_is_base64_or_its_own_characters() {
        // All of these spell `+`/`-` and `/`/`_` differently.
        let key: Vec<u8> = (200..232).collect();
        for text in [
            data_encoding::BASE64.encode(&key),
            data_encoding::BASE64_NOPAD.encode(&key),
            data_encoding::BASE64URL.encode(&key),
            data_encoding::BASE64URL_NOPAD.encode(&key),
        ] {
            assert!(good(&text) && good(&format!("whsec_{text}")), "{text}");
            let standard = !text.contains(['-', '_']);
            assert_eq!(
                can_sign(&Secret::new(format!("whsec_{text}"))),
                standard,
                "{text}"
            );
        }
        // 32 characters that happen to be base64 too, and a text that is none.
        assert!(good("whsec_abcdefghijklmnopqrstuvwxyz012345"));
        assert!(good("abcdefghijklmnopqrstuvwxyz_!"));
        // Two that ran together, and one that the verifier could not read.
        assert!(!good("whsec_abcdefghijklmnopqrstuv whsec_wxyz0123456789"));
        assert!(!good("whsec_schlüsselschlüsselschlüssel"));
    }

    #[test]
    fn a_secret_that_guards_nothing_is_none() {
        let zeros = data_encoding::BASE64.encode(&[0; 24]);
        let short = data_encoding::BASE64.encode(b"abcdefghijklmnopqrstuv");
        let long = data_encoding::BASE64.encode(&(0..65).collect::<Vec<u8>>());
        for text in ["", "c2hvcnQ=", &zeros, &short, &long] {
            assert!(!good(text) && !good(&format!("whsec_{text}")), "{text}");
            assert!(!can_sign(&Secret::new(format!("whsec_{text}"))), "{text}");
        }
        assert!(!good("whpk_abcdefghijklmnopqrstuvwxyz012345"));
        assert!(!can_sign(&Secret::new("short")));
        assert!(!can_sign(&Secret::new("whsec_not base64 at all, really")));
    }
}
