//! Gives the program its version: of a release build with the commit, and a mark if its files were modified.

use std::env;
use std::process::Command;

/// The folders and files with the sources of the program. Their changes may make a build a modified one.
const SOURCES: [&str; 7] =
    [".", "../engine", "../jobs", "../operators", "../results", "../Cargo.toml", "../Cargo.lock"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=HOPEVAL_COMMIT");
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    // Tests are not to be built anew for each commit.
    let build = match env::var("PROFILE").as_deref() {
        Ok("release") => env::var("HOPEVAL_COMMIT").ok().filter(|commit| !commit.is_empty()).or_else(commit),
        _ => Some("debug build".to_owned()),
    };
    let suffix = build.map_or(String::new(), |build| format!(" ({build})"));
    println!("cargo::rustc-env=HOPEVAL_VERSION={version}{suffix}");
}

/// The commit of the checkout; `None` outside of one.
fn commit() -> Option<String> {
    println!("cargo::rerun-if-changed={}", git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    SOURCES.iter().for_each(|folder| println!("cargo::rerun-if-changed={folder}"));
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let is_modified =
        !git(&[&["status", "--porcelain", "--untracked-files=no", "--"][..], &SOURCES].concat())?.is_empty();
    Some(if is_modified { format!("{commit}, modified") } else { commit })
}

/// The output of a command of git; `None` if there is no git, or no checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
