//! The cache that tools share, in `huggingface_hub`'s layout.
//!
//! ```text
//! models--user--repo/
//!   blobs/<etag>                      contents, named by their checksum
//!   blobs/<etag>.incomplete           what has arrived of them
//!   refs/main                         the commit that the branch was at
//!   snapshots/<commit>/model.gguf     -> ../../blobs/<etag>
//!   .clef-hub/<commit>                the models and projectors that the hub listed, one a line; other tools ignore it
//! .locks/models--user--repo/<etag>.lock
//! ```
//!
//! Order makes it safe: a blob is renamed into place when it is whole, the link is made when the blob is there, and the
//! branch is moved when every file that was asked for is linked. Whoever stops in between leaves nothing that looks
//! finished, and whoever fails before the first byte nothing at all. See
//! <https://huggingface.co/docs/huggingface_hub/guides/manage-cache>.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk;
use crate::error::{Error, Result};
use crate::listing::{Etag, Listing, RepoFile};
use crate::lock::Lock;
use crate::request::{RepoId, is_commit, is_safe_path};

/// How deep folders of a snapshot are looked into, and how many files are seen: a cache is not trusted to end.
const MAX_DEPTH: usize = 16;
const MAX_FILES: usize = 100_000;

/// The longest file that names a commit, in bytes.
const MAX_REF_BYTES: u64 = 1_024;

/// The longest list of files that is kept, in bytes.
const MAX_LISTED_BYTES: u64 = 4 << 20;

/// One repository's part of the cache.
#[derive(Debug)]
pub(crate) struct BlobCache {
    folder: PathBuf,
    locks: PathBuf,
}

impl BlobCache {
    /// Where a repository is, or would be.
    pub(crate) fn new(cache_dir: &Path, repo: &RepoId) -> Self {
        let name = format!("models--{}--{}", repo.owner(), repo.name());
        Self { folder: cache_dir.join(&name), locks: cache_dir.join(".locks").join(&name) }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a file stands for whoever opens it; whether or not it does yet.
    pub(crate) fn pointer(&self, commit: &str, path: &str) -> PathBuf {
        let mut pointer = self.folder.join("snapshots").join(commit);
        pointer.extend(path.split('/'));
        pointer
    }

    pub(crate) fn blob(&self, etag: &Etag) -> PathBuf {
        self.folder.join("blobs").join(etag.as_str())
    }

    pub(crate) fn lock_path(&self, etag: &Etag) -> PathBuf {
        self.locks.join(format!("{}.lock", etag.as_str()))
    }

    /// Where what has arrived of a blob is kept. Without a lock, under a name that only this process uses.
    pub(crate) fn incomplete(&self, etag: &Etag, lock: &Lock) -> PathBuf {
        let blob = self.blob(etag);
        if lock.is_held() {
            blob.with_file_name(format!("{}.incomplete", etag.as_str()))
        } else {
            disk::temporary_beside(&blob)
        }
    }

    /// How many bytes of a blob have arrived, for an estimate of what is to come.
    pub(crate) fn incomplete_bytes(&self, etag: &Etag) -> u64 {
        let incomplete = self.blob(etag).with_file_name(format!("{}.incomplete", etag.as_str()));
        fs::symlink_metadata(incomplete).ok().filter(fs::Metadata::is_file).map_or(0, |metadata| metadata.len())
    }

    /// The file for whoever opens it, if it is there. One of another size than it should have is damaged, and is not.
    pub(crate) fn find(&self, commit: &str, file: &RepoFile) -> Option<PathBuf> {
        let pointer = self.pointer(commit, &file.path);
        is_size_of(file, disk::file_size(&pointer)?).then_some(pointer)
    }

    /// Whether the blob of a file is there, whole.
    pub(crate) fn has_blob(&self, etag: &Etag, file: &RepoFile) -> bool {
        disk::file_size(&self.blob(etag)).is_some_and(|size| is_size_of(file, size))
    }

    /// Warns of a blob that is there and of no use.
    pub(crate) fn warn_of_damage(&self, etag: &Etag, file: &RepoFile) {
        let blob = self.blob(etag);
        if let (Some(size), Some(wanted)) = (disk::file_size(&blob), file.size) {
            tracing::warn!("{} has {size} bytes and should have {wanted}; it is fetched anew", blob.display());
        }
    }

    /// Makes the folders for a download. Other tools take a repository without snapshots for damaged.
    pub(crate) fn prepare(&self) -> Result<()> {
        disk::create_folder(&self.folder.join("blobs"))?;
        disk::create_folder(&self.folder.join("snapshots"))
    }

    /// Leaves nothing of a download that has brought nothing.
    pub(crate) fn tidy(&self) {
        let is_ours = |entry: io::Result<fs::DirEntry>| {
            entry.is_ok_and(|entry| entry.file_name() == "blobs" || entry.file_name() == "snapshots")
        };
        if !fs::read_dir(&self.folder).is_ok_and(|mut entries| entries.all(is_ours)) {
            return;
        }
        // Folders that are not empty stay; the blobs that are still there need the others.
        if fs::remove_dir(self.folder.join("blobs")).is_ok() && fs::remove_dir(self.folder.join("snapshots")).is_ok() {
            let _ = fs::remove_dir(&self.folder);
        }
    }

    /// Moves what has arrived, whole and checked, to where blobs are.
    pub(crate) fn accept(&self, etag: &Etag, incomplete: &Path) -> Result<()> {
        let blob = self.blob(etag);
        fs::rename(incomplete, &blob).map_err(|error| Error::io("rename a finished download to", &blob, error))
    }

    /// Makes a blob the contents of a file.
    pub(crate) fn link(&self, commit: &str, path: &str, etag: &Etag) -> Result<PathBuf> {
        let pointer = self.pointer(commit, path);
        disk::create_parent(&pointer)?;
        // From the folder of the file up to that of the repository.
        let mut target = PathBuf::from_iter(std::iter::repeat_n("..", path.split('/').count() + 1));
        target.extend(["blobs", etag.as_str()]);
        let temporary = disk::temporary_beside(&pointer);
        let made = symlink(&target, &temporary)
            .or_else(|_| fs::hard_link(self.blob(etag), &temporary))
            .or_else(|_| fs::copy(self.blob(etag), &temporary).map(|_| ()))
            .and_then(|()| fs::rename(&temporary, &pointer));
        made.map_err(|error| {
            // It is an error already; what else goes wrong is not the news.
            let _ = fs::remove_file(&temporary);
            Error::io("link", &pointer, error)
        })?;
        Ok(pointer)
    }

    /// Moves a branch or tag to a commit.
    pub(crate) fn set_ref(&self, revision: &str, commit: &str) -> Result<()> {
        if is_commit(revision) || self.commit_of(revision).as_deref() == Some(commit) {
            return Ok(());
        }
        disk::write_whole(&self.ref_path(revision), commit.as_bytes())
    }

    /// The commit that a revision was at when it was last asked for.
    pub(crate) fn commit_of(&self, revision: &str) -> Option<String> {
        if is_commit(revision) {
            return Some(revision.to_ascii_lowercase());
        }
        let path = self.ref_path(revision);
        if disk::file_size(&path)? > MAX_REF_BYTES {
            return None;
        }
        let commit = fs::read_to_string(path).ok()?.trim().to_ascii_lowercase();
        is_commit(&commit).then_some(commit)
    }

    /// What is there of a revision.
    pub(crate) fn listing(&self, revision: &str) -> Option<Listing> {
        let commit = self.commit_of(revision)?;
        let mut files = Vec::new();
        gather(&self.folder.join("snapshots").join(&commit), "", 0, &mut files);
        Some(Listing { commit, files })
    }

    /// Keeps the names that a choice is made of, for whoever chooses without a network: what is there is often not all
    /// there is.
    pub(crate) fn keep_listed(&self, listing: &Listing) -> Result<()> {
        let mut paths = listing.paths();
        paths.retain(|path| path.to_ascii_lowercase().ends_with(".gguf"));
        let text = paths.join("\n");
        let path = self.listed_path(&listing.commit);
        if fs::read(&path).is_ok_and(|kept| kept == text.as_bytes()) {
            return Ok(());
        }
        disk::write_whole(&path, text.as_bytes())
    }

    /// The names that were kept of a commit.
    pub(crate) fn listed(&self, commit: &str) -> Option<Vec<String>> {
        let path = self.listed_path(commit);
        if disk::file_size(&path)? > MAX_LISTED_BYTES {
            return None;
        }
        let text = fs::read_to_string(path).ok()?;
        Some(text.lines().filter(|path| is_safe_path(path)).map(str::to_owned).collect())
    }

    fn listed_path(&self, commit: &str) -> PathBuf {
        self.folder.join(".clef-hub").join(commit)
    }

    fn ref_path(&self, revision: &str) -> PathBuf {
        let mut path = self.folder.join("refs");
        path.extend(revision.split('/'));
        path
    }
}

fn is_size_of(file: &RepoFile, size: u64) -> bool {
    file.size.is_none_or(|wanted| wanted == size)
}

/// The files of a snapshot; links to blobs that are gone are none.
fn gather(folder: &Path, prefix: &str, depth: usize, files: &mut Vec<RepoFile>) {
    if depth > MAX_DEPTH {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            continue;
        };
        let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        if files.len() >= MAX_FILES || !is_safe_path(&path) || path.ends_with(".incomplete") {
            continue;
        }
        match (entry.file_type(), disk::file_size(&entry.path())) {
            (Ok(kind), _) if kind.is_dir() => gather(&entry.path(), &path, depth + 1, files),
            (_, Some(size)) => files.push(RepoFile { path, size: Some(size), etag: None, checksum: None }),
            _ => {}
        }
    }
}

#[cfg(unix)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn symlink(target: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(target, link)
}

#[cfg(not(any(unix, windows)))]
fn symlink(_target: &Path, _link: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
