//! A folder in which files appear whole or not at all.
//!
//! A file is written under a hidden temporary name in the same folder, flushed to the disk, renamed,
//! and the folder is flushed: after a power cut there is the old file, the new one, or none.
//!
//! A temporary file that a killed process left is removed by the next attempt of the same key. Race:
//! an attempt whose lease ran out may still be writing then. It loses its temporary file, its rename
//! fails, and it ends as a retry; it can never put a mixed file in place, because temporary names
//! are never used twice.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::TempPath;
use tokio::fs;
use tokio::io::{AsyncWriteExt, BufWriter};

/// A file that is complete and on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    /// Its name in the folder.
    pub(super) file: String,
    /// Its length.
    pub(super) bytes: u64,
    /// SHA-256 of its content, in lower-case hex.
    pub(super) sha256: String,
    /// Lines that are not blank, for `.jsonl` files.
    pub(super) lines: Option<u64>,
}

/// One operation's folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    part_prefix: String,
}

impl Folder {
    /// Makes the folder if need be, and removes what earlier attempts of this key left half-done.
    pub(super) async fn open(path: PathBuf, key: &str) -> io::Result<Self> {
        if !fs::try_exists(&path).await? {
            fs::create_dir_all(&path).await?;
            // The new folder's entry, and that of the configured directory, which may be new too.
            for above in path.ancestors().skip(1).take(2) {
                sync_dir(above).await?;
            }
        }
        let tag: String = key
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(16)
            .collect();
        let part_prefix = format!(".part-{tag}-");
        let folder = Self { path, part_prefix };
        folder.tidy().await?;
        Ok(folder)
    }

    async fn tidy(&self) -> io::Result<()> {
        let mut entries = fs::read_dir(&self.path).await?;
        while let Some(entry) = entries.next_entry().await? {
            let name = entry.file_name();
            if name.to_string_lossy().starts_with(&self.part_prefix) {
                // Somebody else may have removed it first.
                let _ = fs::remove_file(entry.path()).await;
            }
        }
        Ok(())
    }

    /// Begins a file.
    pub(super) async fn part(&self) -> io::Result<Part> {
        let (path, prefix) = (self.path.clone(), self.part_prefix.clone());
        let make = move || {
            tempfile::Builder::new()
                .prefix(&prefix)
                // As any new file: what others may do with it is the umask's affair.
                .permissions(Permissions::from_mode(0o666))
                .tempfile_in(path)
        };
        let (file, temp) = blocking(make).await?.into_parts();
        Ok(Part {
            file: BufWriter::with_capacity(256 * 1024, fs::File::from_std(file)),
            temp,
            hash: Sha256::new(),
            bytes: 0,
            lines: 0,
            in_line: false,
        })
    }

    /// Ends a file and gives it its name, replacing what had it.
    pub(super) async fn keep(&self, mut part: Part, file: &str) -> io::Result<Written> {
        part.file.flush().await?;
        part.file.get_ref().sync_all().await?;
        let to = self.path.join(file);
        fs::rename(&part.temp, &to).await?;
        sync_dir(&self.path).await?;
        let is_lines = Path::new(file).extension().is_some_and(|e| e == "jsonl");
        Ok(Written {
            file: file.to_owned(),
            bytes: part.bytes,
            lines: is_lines.then(|| part.lines()),
            sha256: HEXLOWER.encode(&part.hash.finalize()),
        })
    }

    /// Writes a whole file.
    pub(super) async fn write(&self, file: &str, content: &[u8]) -> io::Result<Written> {
        let mut part = self.part().await?;
        part.push(content).await?;
        self.keep(part, file).await
    }

    /// A file's content, if it can be read.
    pub(super) async fn read(&self, file: &str) -> Option<Vec<u8>> {
        fs::read(self.path.join(file)).await.ok()
    }

    /// Removes a file that may be there.
    pub(super) async fn forget(&self, file: &str) {
        let _ = fs::remove_file(self.path.join(file)).await;
    }

    /// Whether every one of these files is there with its length.
    pub(super) async fn has_all(&self, files: &[Written]) -> bool {
        for written in files {
            // The manifest lies in a directory that others may write: no name leads out of it.
            let plain = Path::new(&written.file)
                .file_name()
                .is_some_and(|name| name == &*written.file);
            let found = fs::metadata(self.path.join(&written.file)).await;
            if !plain || !found.is_ok_and(|found| found.len() == written.bytes) {
                return false;
            }
        }
        true
    }
}

/// A file being written. Dropped without [`Folder::keep`], it vanishes.
#[derive(Debug)]
pub(super) struct Part {
    file: BufWriter<fs::File>,
    temp: TempPath,
    hash: Sha256,
    bytes: u64,
    lines: u64,
    in_line: bool,
}

impl Part {
    /// Appends.
    pub(super) async fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.file.write_all(chunk).await?;
        self.hash.update(chunk);
        self.bytes += chunk.len() as u64;
        for byte in chunk {
            match byte {
                b'\n' => {
                    self.lines += u64::from(self.in_line);
                    self.in_line = false;
                }
                b' ' | b'\t' | b'\r' => {}
                _ => self.in_line = true,
            }
        }
        Ok(())
    }

    /// Bytes so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Lines so far that are not blank; the last one needs no line end.
    pub(super) fn lines(&self) -> u64 {
        self.lines + u64::from(self.in_line)
    }
}

async fn sync_dir(path: &Path) -> io::Result<()> {
    // Above a relative path's first component is the current directory.
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    fs::File::open(path).await?.sync_all().await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn names(path: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let mut entries = fs::read_dir(path).await.unwrap();
        while let Some(entry) = entries.next_entry().await.unwrap() {
            found.push(entry.file_name().into_string().unwrap());
        }
        found.sort();
        found
    }

    #[tokio::test]
    async fn a_file_appears_whole_and_a_dropped_one_never() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path().join("a/b"), "key").await.unwrap();
        let mut part = folder.part().await.unwrap();
        part.push(b"{}\n\n{\"a\":").await.unwrap();
        part.push(b"1}\n  \n{}").await.unwrap();
        assert_eq!(names(&folder.path).await.len(), 1, "only the hidden part");
        let written = folder.keep(part, "x.jsonl").await.unwrap();
        assert_eq!((written.bytes, written.lines), (17, Some(3)));
        assert_eq!(
            written.sha256,
            HEXLOWER.encode(&Sha256::digest(b"{}\n\n{\"a\":1}\n  \n{}"))
        );
        let mut part = folder.part().await.unwrap();
        part.push(b"half").await.unwrap();
        drop(part);
        assert_eq!(names(&folder.path).await, ["x.jsonl"]);
    }

    #[tokio::test]
    async fn what_a_killed_attempt_left_is_removed_by_its_next_and_no_other() {
        let root = tempfile::tempdir().unwrap();
        for name in [".part-key-aaaa", ".part-other-bbbb", "keep.txt"] {
            fs::write(root.path().join(name), "x").await.unwrap();
        }
        Folder::open(root.path().to_owned(), "key").await.unwrap();
        assert_eq!(names(root.path()).await, [".part-other-bbbb", "keep.txt"]);
    }

    #[tokio::test]
    async fn completeness_needs_every_file_at_its_length_inside_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(root.path().join("f"), "key").await.unwrap();
        let written = folder.write("a.txt", b"abc").await.unwrap();
        assert_eq!(written.lines, None);
        assert!(folder.has_all(std::slice::from_ref(&written)).await);
        fs::write(root.path().join("out.txt"), "abc").await.unwrap();
        let outside = Written {
            file: "../out.txt".to_owned(),
            ..written.clone()
        };
        assert!(!folder.has_all(&[outside]).await);
        fs::write(folder.path.join("a.txt"), "ab").await.unwrap();
        assert!(!folder.has_all(&[written]).await);
    }
}
