//! The id, the settings and the record of a new run.

use super::making::MakingOrder;
use super::settings::{ResolvedSettings, can_have_grades, default_cohort_size};
use crate::error::JobError;
use crate::job::sweep;
use crate::prepare::opening::{ConfiguredJob, OpenedJob};
use crate::prepare::questions::PreparationSummary;
use hopeval_datasets::Format;
use hopeval_methods::MethodSetting;
use hopeval_results::run::{RUN_VERSION, run_id};
use hopeval_results::{FileCheck, RunRecord, Store};
use std::collections::BTreeMap;

/// A new unique id.
pub(super) fn new_id(created_ms: u64, dataset_digest: &str, corpus_digest: &str) -> String {
    let seed = format!("{dataset_digest}{corpus_digest}{}{:?}", std::process::id(), std::time::Instant::now());
    run_id(created_ms, blake3::hash(seed.as_bytes()).to_hex().as_str())
}

/// Writes the record of an ordered run: from then on it exists. `checks` are those of the files written before.
pub(super) fn create_record(
    store: &Store,
    order: &MakingOrder,
    resolved: &ResolvedSettings,
    checks: BTreeMap<String, FileCheck>,
) -> Result<(), JobError> {
    let run = &order.run;
    let unwritable = |source| JobError::Stored { what: "the settings", run: run.clone(), source };
    let setting = MethodSetting::of_corpus(resolved.passages as u32);
    let methods = sweep::build_methods(&resolved.configurations, &setting)?;
    let versions = methods.iter().map(|method| (method.kind().to_owned(), method.version()));
    let record = RunRecord {
        schema_version: RUN_VERSION,
        run: run.clone(),
        job: resolved.job.name.clone(),
        job_digest: resolved.digest(),
        created_ms: order.created_ms,
        settings: serde_json::to_value(resolved).map_err(unwritable)?,
        checks,
        method_versions: versions.collect(),
    };
    record.create(store)?;
    tracing::info!(run, job = record.job, questions = resolved.prepared.questions, "the run is made");
    Ok(())
}

/// The settings of a new run, with those of its opened job.
pub(super) fn resolve_settings(
    opened: OpenedJob,
    configured: ConfiguredJob,
    prepared: PreparationSummary,
    dataset_digest: String,
    set_aside: bool,
) -> ResolvedSettings {
    let OpenedJob { job, corpus_key, catalogue } = opened;
    let corpus = &catalogue.corpus;
    let grades = can_have_grades(&job, prepared.format.unwrap_or(Format::World));
    ResolvedSettings {
        cohort_size: job.run.chunk.unwrap_or_else(|| default_cohort_size(prepared.questions)),
        job,
        configurations: configured.configurations,
        prepared,
        dataset_digest,
        corpus_digest: corpus.digest().to_owned(),
        corpus_key,
        set_aside,
        passages: corpus.len() as u64,
        services: catalogue.fingerprints(),
        parameters: catalogue.model_parameters(),
        selections: configured.selections,
        links: corpus.info().link_origin.as_str().to_owned(),
        grades,
        judged: None,
    }
}
