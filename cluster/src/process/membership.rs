//! How a process takes part in a mesh.

use hopeval_cluster::mesh::MeshSettings;
use std::time::Duration;

/// How a process takes part.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    /// Index of this process.
    pub(crate) process: usize,
    /// Addresses of all processes; one alone needs none.
    pub(crate) hosts: Vec<String>,
    /// Workers of each process.
    pub(crate) workers: usize,
    /// After so long without a sign a process counts as stalled.
    pub(crate) stall_bound: Duration,
    /// How long forming the mesh may take.
    pub(crate) deadline: Duration,
}

impl Membership {
    /// The settings of its mesh.
    pub(super) fn settings(&self) -> MeshSettings {
        MeshSettings {
            process: self.process,
            hosts: self.hosts.clone(),
            workers: self.workers,
            token: token(&self.hosts),
            deadline: self.deadline,
        }
    }
}

/// The mesh's secret: `HOPEVAL_MESH_TOKEN` if it is set, else what tells this mesh from others.
fn token(hosts: &[String]) -> [u8; 32] {
    let secret = std::env::var("HOPEVAL_MESH_TOKEN").unwrap_or_default();
    hopeval_jobs::digest_of(&[secret.as_str(), hosts.join(",").as_str()])
}
