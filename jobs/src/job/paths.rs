//! Paths of a job: one or several, relative to its file.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The corpus source for the questions' own candidates.
pub const CONTEXTS: &str = "contexts";

/// One path or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(PathBuf),
    /// Several, in order.
    Many(Vec<PathBuf>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl OneOrMany {
    /// The paths, in order.
    pub fn paths(&self) -> &[PathBuf] {
        match self {
            Self::One(path) => std::slice::from_ref(path),
            Self::Many(paths) => paths,
        }
    }

    pub(crate) fn resolve(&mut self, base: &Path) {
        let resolve = |path: &mut PathBuf| {
            if path.as_os_str() != CONTEXTS {
                *path = absolute(base, path);
            }
        };
        match self {
            Self::One(path) => resolve(path),
            Self::Many(paths) => paths.iter_mut().for_each(resolve),
        }
    }
}

/// A path of a job, relative to its file.
pub(crate) fn absolute(base: &Path, path: &Path) -> PathBuf {
    if path.is_absolute() { path.to_path_buf() } else { base.join(path) }
}
