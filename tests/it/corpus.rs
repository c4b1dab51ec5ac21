//! Every input that was worth keeping, through the bodies of the fuzz targets.

#[path = "../../fuzz/src/targets/mod.rs"]
mod targets;

use std::path::{Path, PathBuf};

/// A replay of nothing proves nothing.
const FEWEST_FILES: usize = 5;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn replay(target: &str) {
    let (name, check) = targets::ALL
        .iter()
        .find(|(name, _)| *name == target)
        .unwrap();
    let files = files(&folder().join(name));
    assert!(files.len() >= FEWEST_FILES, "{name}: {} files", files.len());
    for file in files {
        let input = std::fs::read(&file).unwrap();
        let held = std::panic::catch_unwind(|| check(&input)).is_ok();
        assert!(held, "{} breaks a property of {name}", file.display());
    }
}

/// One test per target, so that they run beside one another and name what failed.
macro_rules! replayed {
    ($($target:ident),+) => {
        $(#[test] fn $target() { replay(stringify!($target)); })+

        #[test]
        fn no_target_and_no_corpus_is_left_out() {
            let replayed = [$(stringify!($target)),+];
            let known: Vec<&str> = targets::ALL.iter().map(|(name, _)| *name).collect();
            assert_eq!(known, replayed);
            let kept: Vec<String> = files(&folder())
                .iter()
                .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
                .collect();
            assert_eq!(kept, replayed, "in fuzz/corpus");
            for name in replayed {
                let binary = folder().join(format!("../fuzz_targets/{name}.rs"));
                assert!(binary.exists(), "{}", binary.display());
            }
        }
    };
}

replayed!(
    client_address,
    config,
    envelope,
    gemini_body,
    key_set,
    operation_name,
    signature,
    token
);
