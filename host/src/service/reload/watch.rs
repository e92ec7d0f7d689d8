//! Sees that a file of the config changed, by looking. A look costs one `stat` a file, sees whatever
//! a reader would see (a rename over the file, a symlink that leads elsewhere, another file system),
//! and a database that is written to in the same folder wakes nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two looks. A change is acted on once it was the same in two of them, so that a file that
/// is still being written is left alone.
const LOOK_EVERY: Duration = Duration::from_millis(500);

type Looked = BTreeMap<PathBuf, Option<Stamp>>;

/// Of what a path leads to, symlinks followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

pub struct Watch {
    look_every: Duration,
    /// As they were when somebody was last told.
    told: Looked,
}

impl Default for Watch {
    fn default() -> Self {
        Self { look_every: LOOK_EVERY, told: Looked::new() }
    }
}

impl Watch {
    /// Returns once the files differ from what they were when it last returned, and stand still. The
    /// first time that is so at once: what changed while the host started is not missed.
    pub async fn changed(&mut self, files: &BTreeSet<PathBuf>) {
        let mut last = look(files).await;
        loop {
            tokio::time::sleep(self.look_every).await;
            let now = look(files).await;
            if now == last && now != self.told {
                self.told = now;
                return;
            }
            last = now;
        }
    }
}

/// On a thread that may wait, since a file system may.
async fn look(files: &BTreeSet<PathBuf>) -> Looked {
    let files = files.clone();
    let looked =
        move || files.into_iter().map(|path| (stamp(&path), path)).map(|(s, path)| (path, s)).collect();
    tokio::task::spawn_blocking(looked).await.unwrap_or_default()
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = path.metadata().ok()?;
    Some(Stamp {
        device: found.dev(),
        inode: found.ino(),
        bytes: found.len(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const SOON: Duration = Duration::from_millis(5);

    #[tokio::test]
    async fn every_way_to_replace_a_file_is_seen_once_and_reading_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // As Kubernetes mounts a ConfigMap: the file leads to ..data, and that to a dated folder.
        for version in ["1", "2"] {
            std::fs::create_dir(at(version)).unwrap();
            std::fs::write(at(version).join("mounted"), "same").unwrap();
        }
        symlink("1", at("..data")).unwrap();
        symlink("..data/mounted", at("mounted")).unwrap();
        std::fs::write(at("file"), "one").unwrap();
        let files = BTreeSet::from([at("file"), at("mounted"), at("missing")]);
        let mut watch = Watch { look_every: SOON, ..Watch::default() };
        watch.changed(&files).await;

        let changes: [(&str, &dyn Fn()); 6] = [
            ("written in place", &|| std::fs::write(at("file"), "two").unwrap()),
            ("replaced by a rename", &|| {
                std::fs::write(at("new"), "two").unwrap();
                std::fs::rename(at("new"), at("file")).unwrap();
            }),
            ("a symlink swapped", &|| {
                symlink("2", at("..data_tmp")).unwrap();
                std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
            }),
            ("created", &|| std::fs::write(at("missing"), "now").unwrap()),
            ("removed", &|| std::fs::remove_file(at("missing")).unwrap()),
            ("made larger", &|| std::fs::write(at("file"), "three").unwrap()),
        ];
        for (what, change) in changes {
            assert!(is_quiet(&mut watch, &files).await, "before: {what}");
            change();
            watch.changed(&files).await;
        }
        std::fs::read(at("file")).unwrap();
        std::fs::write(at("beside"), "a database").unwrap();
        assert!(is_quiet(&mut watch, &files).await);
    }

    async fn is_quiet(watch: &mut Watch, files: &BTreeSet<PathBuf>) -> bool {
        tokio::time::timeout(SOON * 10, watch.changed(files)).await.is_err()
    }
}
