//! Runs a Python interpreter as a child: asks it for packages, then lets it train.
//!
//! The child inherits input, output and environment. The terminal's Ctrl-C reaches it as well as this process, SIGTERM
//! is passed on, and the child does not outlive this process.

use super::scripts::Requirement;
use anyhow::{Context, Result, bail};
use hopeval_cluster::signals::Signals;
use hopeval_cluster::supervise::{self, ChildEnd};
use hopeval_endpoint::settings::KEY_VARIABLE;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Pause between two looks at the child.
const LOOK: Duration = Duration::from_millis(20);

/// Imports its arguments and prints a line for each failed import: the name, a tab, the error.
const ASK: &str = r#"
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception as error:
        print(name, " ".join(str(error).split()), sep="\t")
"#;

/// An interpreter, and whether it is to stop.
#[derive(Debug)]
pub(super) struct Interpreter<'a> {
    /// A path, or a name to look up in PATH.
    pub(super) program: &'a Path,
    /// The signals of this process.
    pub(super) signals: &'a Signals,
}

/// The end of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrainingEnd {
    /// The script is through.
    Finished,
    /// This process or the script was asked to stop.
    Interrupted,
    /// The script failed and has printed the reason.
    Failed(ChildEnd),
}

impl Interpreter<'_> {
    /// Checks that the interpreter can be started and has the packages: an error here is clearer than the script's, and
    /// comes before anything is read.
    ///
    /// # Errors
    /// They name the interpreter, the missing packages, and the command that installs them.
    pub(super) fn check_packages(&self, requirements: &[Requirement]) -> Result<()> {
        let mut command = Command::new(self.program);
        // No script of ours asks a server.
        command.env_remove(KEY_VARIABLE);
        command.arg("-c").arg(ASK).args(requirements.iter().map(|requirement| requirement.name));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        supervise::die_with_parent(&mut command);
        let shown = self.program.display();
        let output = match command.output() {
            Ok(output) => output,
            Err(error) => bail!(
                "cannot start the Python interpreter `{shown}`: {error}\n\
                 hint: --python PROGRAM names one that has PyTorch, as venv/bin/python"
            ),
        };
        // The request to stop has stopped the child, too.
        if !output.status.success() && !self.signals.is_draining() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim().lines().last().unwrap_or("nothing").to_owned();
            bail!(
                "the Python interpreter `{shown}` {} when it was asked for its packages; it said: {said}",
                child_end(output.status)
            );
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let missing: Vec<String> = said
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .filter(|(name, _)| requirements.iter().any(|requirement| requirement.name == *name))
            .map(|(name, why)| format!("{name} ({why})"))
            .collect();
        if !missing.is_empty() {
            let pinned: Vec<&str> = requirements.iter().map(|requirement| requirement.pinned).collect();
            bail!(
                "the Python interpreter `{shown}` cannot import what training needs: {}\n\
                 hint: `{shown} -m pip install {}` installs the versions of ops/train, which are those of \
                 `pip install -r requirements.txt` there; --python PROGRAM names another interpreter",
                missing.join(", "),
                pinned.join(" ")
            );
        }
        Ok(())
    }

    /// Runs a script to its end.
    ///
    /// # Errors
    /// It cannot be started, or not be waited for.
    pub(super) fn train(&self, script: &Path, options: &[OsString]) -> Result<TrainingEnd> {
        if self.signals.is_draining() {
            return Ok(TrainingEnd::Interrupted);
        }
        let mut command = Command::new(self.program);
        // No script of ours asks a server.
        command.env_remove(KEY_VARIABLE);
        command.arg(script).args(options);
        supervise::die_with_parent(&mut command);
        let child = command.spawn().with_context(|| format!("cannot start {}", self.program.display()))?;
        let status = self.wait_for_child(child).context("the training cannot be waited for")?;
        Ok(match child_end(status) {
            ChildEnd::Code(0) => TrainingEnd::Finished,
            // The child was asked to stop, directly or by this process; the script's own exit code does not matter.
            _ if self.signals.is_draining() => TrainingEnd::Interrupted,
            ChildEnd::Signal(signal) if [Signal::SIGINT as i32, Signal::SIGTERM as i32].contains(&signal) => {
                TrainingEnd::Interrupted
            }
            end => TrainingEnd::Failed(end),
        })
    }

    fn wait_for_child(&self, mut child: Child) -> std::io::Result<ExitStatus> {
        let mut told = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if self.signals.is_draining() && !told {
                told = true;
                if let Ok(pid) = i32::try_from(child.id()) {
                    // The child is not reaped yet, so the process number is its own. If it has ended meanwhile, the
                    // next look shows it.
                    let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
                }
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn child_end(status: ExitStatus) -> ChildEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ChildEnd::Code(code),
        (None, signal) => ChildEnd::Signal(signal.unwrap_or(0)),
    }
}
