//! Libraries and tools of CUDA from the Python package index, in folders below `target`, each installed once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// One release, so that tables and texts are the same everywhere.
pub(crate) const NVRTC: &str = "nvidia-cuda-nvrtc==13.0.88";

/// The folder `nvidia` of a package, which is installed below `folder`. Test processes wait for each other.
///
/// # Errors
/// The command that failed, with its messages.
pub(crate) fn install(package: &str, folder: &str) -> Result<PathBuf, String> {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let (venv, packages) = (home.join("venv"), home.join("packages"));
    let ready = home.join(format!("{package}.installed"));
    let installed = packages.join("nvidia");
    let at_home = |error| format!("{}: {error}", home.display());
    fs::create_dir_all(&home).map_err(at_home)?;
    let lock = File::create(home.join("lock")).map_err(at_home)?;
    lock.lock().map_err(at_home)?;
    if ready.exists() {
        return Ok(installed);
    }
    let attempt = |command: &mut Command| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{command:?}: {error}")),
    };
    attempt(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade", "--target"];
    attempt(Command::new(venv.join("bin/python")).args(pip).arg(&packages).arg(package))?;
    fs::write(&ready, "").map_err(|error| format!("{}: {error}", ready.display()))?;
    Ok(installed)
}
