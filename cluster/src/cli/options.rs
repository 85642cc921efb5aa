//! Options shared by several commands.

mod counts;
mod fields;
mod job;
mod mesh;
mod output;
mod places;
mod progress;

pub(super) use counts::{question_count, thread_count};
pub(super) use fields::field_pair;
pub(super) use job::JobArguments;
pub(super) use mesh::{MESH_TOKEN, MeshArguments, mesh_token, metrics_error};
pub(super) use output::OutputArguments;
pub(super) use places::{PlaceArguments, user_cache};
pub(super) use progress::ProgressArguments;
