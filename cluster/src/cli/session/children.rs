//! Starts all processes of a mesh on this machine and waits for them.

use super::EvaluationSession;
use crate::cli::options::{MESH_TOKEN, mesh_token};
use crate::print;
use anyhow::{Context, Result};
use hopeval_cluster::exit;
use hopeval_cluster::mesh;
use hopeval_cluster::supervise::{self, ChildEnd, GracePeriods};
use hopeval_endpoint::settings::KEY_VARIABLE;
use hopeval_jobs::run::settings::ResolvedSettings;
use hopeval_jobs::services::ServiceEntry;
use hopeval_results::RunRecord;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

impl EvaluationSession<'_> {
    /// Runs one generation to its end in children, and returns the exit code of the whole.
    pub(super) fn start_children(&self, run: &str) -> Result<u8> {
        let program = std::env::current_exe()?;
        // From now on process 0 shows the progress.
        self.progress.clear();
        // A process that has not noticed a loss within the stall bound will never notice it.
        let grace = GracePeriods::default();
        let grace = GracePeriods { notice: grace.notice.min(self.mesh.membership()?.stall_bound), ..grace };
        self.interrupts.set_joined();
        // Other users of this machine can connect to the children's ports and read command lines, not environments.
        let token = mesh_token()?.map_or_else(mesh::random_token, Ok)?;
        let key_variables = self.key_variables(run)?;
        let command = |process: usize, hosts: &[String]| {
            let mut command = self.child_command(&program, run, process, hosts);
            command.env(MESH_TOKEN, &token);
            // Process 0 asks the endpoints. The others need no key, so they get none.
            if process > 0 {
                for variable in &key_variables {
                    command.env_remove(variable);
                }
            }
            command
        };
        let processes = self.mesh.processes as usize;
        let ending = supervise::supervise_processes(processes, grace, self.interrupts.signals(), command)?;
        let code = ending.code();
        // Process 0 has said so if the run waits for batch files; the others have ended well.
        let resumable = ChildEnd::Code(exit::RESUMABLE.into());
        let waits = ending.children.split_first().is_some_and(|(first, others)| {
            *first == resumable && others.iter().all(|end| *end == ChildEnd::Code(exit::DONE.into()))
        });
        if code == exit::RESUMABLE && !waits {
            for (process, end) in ending.children.iter().enumerate() {
                print::note(&format!("process {process} {end}"));
            }
            print::note(&format!("interrupted: `hopeval resume {run}` goes on from the last commit"));
        }
        Ok(code)
    }

    /// The variables that may hold keys of the run's endpoints.
    fn key_variables(&self, run: &str) -> Result<BTreeSet<String>> {
        let record = RunRecord::load(&self.places.store, run)?;
        let resolved: ResolvedSettings =
            serde_json::from_value(record.settings).with_context(|| format!("run {run}: its settings"))?;
        let named = resolved.job.service.into_values().filter_map(|entry| match entry {
            ServiceEntry::Endpoint(settings) => settings.key_env,
            ServiceEntry::HttpRetriever(settings) => settings.key_env,
            _ => None,
        });
        Ok(named.chain([KEY_VARIABLE.to_owned()]).collect())
    }

    /// The command line of a child.
    fn child_command(&self, program: &Path, run: &str, process: usize, hosts: &[String]) -> Command {
        let mesh = self.mesh;
        let mut command = Command::new(program);
        command.args(["resume", run, "--quiet", "--store", &self.arguments.store]);
        if let Some(cache) = &self.arguments.cache {
            command.arg("--cache").arg(cache);
        }
        if let Some(threads) = self.arguments.threads() {
            command.args(["--threads", &threads.to_string()]);
        }
        command.args(["--storage-patience", &self.arguments.storage_patience.to_string()]);
        command.args(["--workers", &mesh.workers.to_string(), "--processes", &mesh.processes.to_string()]);
        command.args(["--process", &process.to_string(), "--hosts", &hosts.join(",")]);
        command.args(["--stall-bound", &mesh.stall_bound.to_string()]);
        command.args(["--mesh-deadline", &mesh.mesh_deadline.to_string()]);
        if let Some(address) = mesh.metrics_address(process) {
            command.args(["--metrics", &address.to_string()]);
        }
        if process == 0 {
            if let Some(path) = self.progress_log {
                command.arg("--progress-log").arg(path);
            }
            for (key, value) in self.raised_cap.values() {
                command.args(["--set", &format!("run.cap.{key}={value}")]);
            }
        }
        command
    }
}
