//! The part of a process in a mesh.

use hopeval_cluster::mesh::MeshSettings;
use std::time::Duration;

/// The part of a process in a mesh.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    /// Index of this process.
    pub(crate) process: usize,
    /// Addresses of all processes; one alone needs none.
    pub(crate) hosts: Vec<String>,
    /// Workers of each process.
    pub(crate) workers: usize,
    /// Time without a sign of work after which a process counts as stalled.
    pub(crate) stall_bound: Duration,
    /// Longest time for forming the mesh.
    pub(crate) deadline: Duration,
}

impl Membership {
    /// The settings of its mesh.
    pub(super) fn mesh_settings(&self) -> MeshSettings {
        MeshSettings {
            process: self.process,
            hosts: self.hosts.clone(),
            workers: self.workers,
            token: mesh_token(&self.hosts),
            deadline: self.deadline,
        }
    }
}

/// The mesh's secret: the digest of `HOPEVAL_MESH_TOKEN`, if it is set, and the list of hosts.
fn mesh_token(hosts: &[String]) -> [u8; 32] {
    let secret = std::env::var("HOPEVAL_MESH_TOKEN").unwrap_or_default();
    hopeval_jobs::digest_of(&[secret.as_str(), hosts.join(",").as_str()])
}
