//! Documents that are made of what the program says.

use std::path::Path;

/// The file must hold exactly `wanted`; with `UPDATE_DOCS=1` it is made to.
pub(crate) fn check(file: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, wanted).unwrap();
        return;
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    for (n, (is, should)) in there.lines().zip(wanted.lines()).enumerate() {
        let line = n + 1;
        assert_eq!(is, should, "{file}:{line}; UPDATE_DOCS=1 writes it anew");
    }
    assert_eq!(there, wanted, "{file}; UPDATE_DOCS=1 writes it anew");
}

/// The same for what stands behind a line of it; what stands before is written by hand.
pub(crate) fn check_after(file: &str, marker: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let there = std::fs::read_to_string(path).unwrap();
    let (by_hand, _) = there.split_once(marker).unwrap();
    check(file, &format!("{by_hand}{marker}{wanted}"));
}
