//! Runs a Python interpreter as a child: asks it for packages, then lets it train.
//!
//! Input, output and environment are this process's own. The child has the terminal's Ctrl-C as well as we do,
//! SIGTERM is passed on, and it does not outlive us.

use super::scripts::Requirement;
use anyhow::{Context, Result, bail};
use hopeval_cluster::signals::Signals;
use hopeval_cluster::supervise::{self, End};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Pause between two looks at the child.
const LOOK: Duration = Duration::from_millis(20);

/// Imports its arguments and prints a line for each that cannot be: the name, a tab, why.
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
    /// A path, or a name that is looked for in PATH.
    pub(super) program: &'a Path,
    /// Those of this process.
    pub(super) signals: &'a Signals,
}

/// How a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trained {
    /// The script is through.
    Finished,
    /// This process or the script was asked to stop.
    Interrupted,
    /// The script ended otherwise; it has said why.
    Failed(End),
}

impl Interpreter<'_> {
    /// Sees that the interpreter can be started and has the packages: an error here is clearer than the script's, and
    /// comes before anything is read.
    ///
    /// # Errors
    /// They name the interpreter, what is missing, and what installs it.
    pub(super) fn check(&self, requirements: &[Requirement]) -> Result<()> {
        let mut command = Command::new(self.program);
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
        // Whoever asked to stop has stopped the child too.
        if !output.status.success() && !self.signals.draining() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim().lines().last().unwrap_or("nothing").to_owned();
            bail!(
                "the Python interpreter `{shown}` {} when it was asked for its packages; it said: {said}",
                end(output.status)
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
    pub(super) fn train(&self, script: &Path, options: &[OsString]) -> Result<Trained> {
        if self.signals.draining() {
            return Ok(Trained::Interrupted);
        }
        let mut command = Command::new(self.program);
        command.arg(script).args(options);
        supervise::die_with_parent(&mut command);
        let child = command.spawn().with_context(|| format!("cannot start {}", self.program.display()))?;
        let status = self.wait(child).context("the training cannot be waited for")?;
        Ok(match end(status) {
            End::Code(0) => Trained::Finished,
            // Asked to stop, directly or by us, whatever the script makes of it.
            _ if self.signals.draining() => Trained::Interrupted,
            End::Signal(signal) if [Signal::SIGINT as i32, Signal::SIGTERM as i32].contains(&signal) => {
                Trained::Interrupted
            }
            end => Trained::Failed(end),
        })
    }

    fn wait(&self, mut child: Child) -> std::io::Result<ExitStatus> {
        let mut told = false;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if self.signals.draining() && !told {
                told = true;
                if let Ok(pid) = i32::try_from(child.id()) {
                    // It is not reaped yet, so the number is its own; it may have ended meanwhile, which the next
                    // look shows.
                    let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
                }
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn end(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Code(code),
        (None, signal) => End::Signal(signal.unwrap_or(0)),
    }
}
