//! The part of a process in a mesh.

use hopeval_cluster::mesh::{MeshSecret, MeshSettings};
use std::time::Duration;

/// The part of a process in a mesh.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    /// Index of this process.
    pub(crate) process: usize,
    /// Addresses of all processes; one alone needs none.
    pub(crate) hosts: Vec<String>,
    /// Secret of the mesh.
    pub(crate) secret: MeshSecret,
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
            secret: self.secret.clone(),
            deadline: self.deadline,
        }
    }
}
