//! Reads a corpus or an index whole once for all processes of a host that start together.
//!
//! ```text
//!   CACHE/checks/HASH (of the boot and the path), locked while its file is read:   began, identity
//! ```
//!
//! A process trusts a check by another one that began at most [`TRUSTED`] before its own start, on files with the same
//! identity: device, inode, size, times of the last write and of the last change. All processes of a host map the same
//! pages, so each later check would read the same memory. Without the record (a cache that cannot be written, a file
//! system without locks, an owner that is stopped), a process reads the file itself.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The longest time between a trusted check and the start of the process that trusts it.
const TRUSTED: Duration = Duration::from_secs(60);

/// The longest wait for a check by another process.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The pause between two looks at its lock.
const PAUSE: Duration = Duration::from_millis(20);

/// The checks of a host's corpora and indexes.
#[derive(Clone, Debug)]
pub(super) struct HostChecks {
    folder: PathBuf,
    /// Checks that began earlier are not trusted.
    since: SystemTime,
}

impl HostChecks {
    /// The checks recorded in `folder`, for a process that starts at `start`.
    pub(super) fn new(folder: PathBuf, start: SystemTime) -> Self {
        Self { folder, since: start.checked_sub(TRUSTED).unwrap_or(UNIX_EPOCH) }
    }

    /// Calls `verify` for the file or the folder of files at `path`, unless another process has checked it.
    ///
    /// # Errors
    /// The error of `verify`.
    pub(super) fn verify_once<E>(&self, path: &Path, verify: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let record = self.lock_record(path);
        let identity = identity_of(path).unwrap_or_default();
        if let Some(mut file) = record.as_ref()
            && read_record(&mut file).is_some_and(|(began, of)| of == identity && self.is_trusted(began))
        {
            return Ok(());
        }
        let began = SystemTime::now();
        verify()?;
        if let Some(mut file) = record
            && !identity.is_empty()
            && identity_of(path).is_ok_and(|after| after == identity)
            && let Err(error) = write_record(&mut file, began, &identity)
        {
            tracing::debug!("the check of {} is not recorded: {error}", path.display());
        }
        Ok(())
    }

    fn is_trusted(&self, began: SystemTime) -> bool {
        // A clock that was set back says nothing.
        self.since <= began && began <= SystemTime::now()
    }

    /// The locked record of `path`; `None` if there can be none, or another process holds it for too long.
    fn lock_record(&self, path: &Path) -> Option<File> {
        std::fs::create_dir_all(&self.folder).ok()?;
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let mut hasher = blake3::Hasher::new_derive_key("hopeval check 1");
        hasher.update(boot.as_bytes()).update(path.canonicalize().ok()?.as_os_str().as_encoded_bytes());
        let name = hasher.finalize().to_hex()[..32].to_owned();
        let file = File::options().read(true).write(true).create(true).truncate(false).open(self.folder.join(name));
        let (file, begun) = (file.ok()?, Instant::now());
        loop {
            match file.try_lock() {
                Ok(()) => return Some(file),
                Err(std::fs::TryLockError::WouldBlock) if begun.elapsed() < LONGEST_WAIT => thread::sleep(PAUSE),
                Err(_) => return None,
            }
        }
    }
}

/// The identity of a file, or of all files of a folder.
fn identity_of(path: &Path) -> io::Result<String> {
    let of_file = |metadata: &Metadata| {
        let (written, changed) = ((metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec()));
        format!("{} {} {} {written:?} {changed:?}\n", metadata.dev(), metadata.ino(), metadata.len())
    };
    let metadata = path.metadata()?;
    if !metadata.is_dir() {
        return Ok(of_file(&metadata));
    }
    let entries: io::Result<Vec<_>> = path.read_dir()?.collect();
    let files: io::Result<Vec<String>> =
        entries?.iter().map(|entry| Ok(format!("{:?} {}", entry.file_name(), of_file(&entry.metadata()?)))).collect();
    let mut files = files?;
    files.sort();
    Ok(blake3::hash(files.concat().as_bytes()).to_hex().to_string())
}

/// The time of a recorded check, and the identity of its files.
fn read_record(file: &mut &File) -> Option<(SystemTime, String)> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    let (began, identity) = text.split_once('\n')?;
    Some((UNIX_EPOCH + Duration::from_nanos(began.parse().ok()?), identity.to_owned()))
}

fn write_record(file: &mut File, began: SystemTime, identity: &str) -> io::Result<()> {
    let began = began.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("{began}\n{identity}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn checks(dir: &Path, started_ago: Duration) -> HostChecks {
        HostChecks::new(dir.join("checks"), SystemTime::now() + TRUSTED - started_ago)
    }

    #[test]
    fn processes_that_start_together_read_a_file_once() {
        let dir = tempfile::tempdir().unwrap();
        let index = dir.path().join("index");
        std::fs::write(&index, "bytes").unwrap();
        let read = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let checks = HostChecks::new(dir.path().join("checks"), SystemTime::now());
                    let verify = || {
                        read.fetch_add(1, Ordering::SeqCst);
                        thread::yield_now();
                        Ok::<(), ()>(())
                    };
                    checks.verify_once(&index, verify).unwrap();
                });
            }
        });
        assert_eq!(read.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn changed_files_old_checks_and_failures_are_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let (file, folder) = (dir.path().join("index"), dir.path().join("corpus"));
        std::fs::create_dir(&folder).unwrap();
        for (path, written) in [(&file, &file), (&folder, &folder.join("passages"))] {
            std::fs::write(written, "bytes").unwrap();
            let read = Cell::new(0);
            let verify = |started_ago: u64, sound: bool| {
                let checks = checks(dir.path(), Duration::from_secs(started_ago));
                let before = read.get();
                let checked = checks.verify_once(path, || {
                    read.set(before + 1);
                    if sound { Ok(()) } else { Err("damaged") }
                });
                (read.get() - before, checked.is_ok())
            };
            let young = TRUSTED.as_secs() + 1;
            assert_eq!(verify(young, false), (1, false));
            assert_eq!(verify(young, true), (1, true), "a failed check counts for nobody");
            assert_eq!(verify(young, false), (0, true));
            assert_eq!(verify(0, true), (1, true), "it began too long before that process");
            std::fs::write(written, "other").unwrap();
            assert_eq!(verify(young, false), (1, false), "the file has changed");
        }
    }
}
