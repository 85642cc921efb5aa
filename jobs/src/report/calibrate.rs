//! Compares a generated world with a real dataset: retrieval figures, lengths, overlap of question and gold.

use crate::cache::Cache;
use crate::error::JobError;
use crate::job::{CONTEXTS, Job};
use crate::prepare::opening::OpenedJob;
use crate::prepare::questions;
use hopeval_methods::{Answer, Request, ServiceName, request::RetrievePayload};
use hopeval_world::WorldSettings;
use hopeval_world::calibrate::{CalibrationColumn, CalibrationTable, SampleQuestion, measure_column};
use std::path::Path;

/// The compared retrievers: Lucene's BM25 with its defaults here, and DrQA's TF-IDF.
const SERVICES: &str =
    "[service.bm25]\nkind = \"bm25\"\n[service.tfidf]\nkind = \"tfidf\"\n[method.m]\nkind = \"random\"\n";

/// Compares the world of `settings` with the dataset in `path`, taking the dataset's contexts as its corpus. Builds
/// everything needed in `folder`.
///
/// # Errors
/// A file cannot be read or written; a bad row.
pub fn calibrate(settings: &WorldSettings, path: &Path, folder: &Path) -> Result<CalibrationTable, JobError> {
    let world = format!(
        "name = \"world\"\n[dataset.world]\nquestions = {}\npassages = {}\nseed = {}\nsplit = \"{}\"\n{SERVICES}",
        settings.questions,
        settings.passages,
        settings.seed,
        settings.split.name()
    );
    let world = Job::parse(&world, path, &[])?;
    let mut real = Job::parse(
        &format!("name = \"real\"\n[dataset]\nquestions = \"\"\n{SERVICES}[corpus]\nsource = \"{CONTEXTS}\"\n"),
        path,
        &[],
    )?;
    real.dataset.questions = crate::job::OneOrMany::One(path.to_path_buf());
    let cache = Cache::new(folder.to_path_buf());
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(CalibrationTable { columns: vec![measure_job("world", &world, &cache)?, measure_job(&name, &real, &cache)?] })
}

fn measure_job(name: &str, job: &Job, cache: &Cache) -> Result<CalibrationColumn, JobError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let opened = OpenedJob::open(job, cache, threads, false, &|_, _| ())?;
    let (corpus, catalogue) = (opened.corpus(), &opened.catalogue);
    let mut samples = Vec::new();
    questions::prepare_questions(&opened.job, corpus, false, None, &mut |row| {
        // Of several passages for one gold slot, the first counts: lengths and overlap need one text.
        let gold = row.gold.iter().filter_map(|group| group.first()).copied().collect();
        samples.push(SampleQuestion { text: row.text, gold });
        Ok(())
    })?;
    let passages: Vec<(String, String)> =
        corpus.passages().map(|id| (corpus.title(id).to_owned(), corpus.text(id).to_owned())).collect();
    let ask = |service: &str, query: &str, k: usize| {
        let retrieve = RetrievePayload::new(query, u32::try_from(k).unwrap_or(u32::MAX));
        match catalogue.answer(&Request::new(&ServiceName::from(service), retrieve)).result {
            Ok(Answer::Retrieve(hits)) => hits.into_iter().map(|hit| hit.passage.0).collect(),
            _ => Vec::new(),
        }
    };
    let bm25 = |query: &str, k: usize| ask("bm25", query, k);
    let tfidf = |query: &str, k: usize| ask("tfidf", query, k);
    Ok(measure_column(name, &samples, &passages, &bm25, Some(&tfidf)))
}
