//! A job over a small world with a service of every kind, evaluated in this process.

use super::probe::Probe;
use hopeval_jobs::Job;
use hopeval_jobs::cache::Cache;
use hopeval_jobs::places::Places;
use hopeval_jobs::prepare::opening::OpenedJob;
use hopeval_jobs::report::tables;
use hopeval_jobs::run::generation::{Generation, fence_log};
use hopeval_jobs::run::machines::RunConfigurations;
use hopeval_jobs::run::make::make_run;
use hopeval_jobs::run::open::OpenRun;
use hopeval_jobs::run::transcript::transcript;
use hopeval_jobs::services::ServiceEntry;
use hopeval_jobs::services::catalogue::Catalogue;
use hopeval_jobs::services::dataset_questions::DatasetQuestions;
use hopeval_results::tables::{CostRow, FinalOutcomeRow, read_table};
use hopeval_results::{Store, layout};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Services by name, and the tiny models behind them.
const MODELS: [(&str, &str, &str); 8] = [
    ("score", "t5-v1.1", ""),
    ("label", "efficientrag-labeler", "label_tokens = 60"),
    ("filter", "deberta-v3-token", ""),
    ("rerank", "roberta-rerank", ""),
    ("entail", "bert-sequence", "entail_label = \"yes\""),
    ("read", "electra-span", ""),
    ("embed", "bert", "normalize = true"),
    ("generate", "gpt2", "seed = 3"),
];

/// The folder of a tiny model.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/lm/tests/fixtures").join(name)
}

/// A folder with the job, its models and a cache.
pub(crate) struct Bench {
    dir: tempfile::TempDir,
    job: Job,
}

/// The results of a run.
pub(crate) struct EvaluationResult {
    /// The bytes of the tables without dependence on workers.
    pub(crate) tables: Vec<Vec<u8>>,
    /// Answers of the outcomes.
    pub(crate) answers: Vec<String>,
    /// Its costs.
    pub(crate) costs: Vec<CostRow>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut text = "name = \"lm\"\n[dataset.world]\nquestions = 10\npassages = 400\nseed = 5\n\
            [service.retrieve]\nkind = \"bm25\"\n\
            [service.dense]\nkind = \"dense\"\nencoder = \"embed\"\n\
            [service.half]\nkind = \"dense\"\nencoder = \"embed\"\ndtype = \"f16\"\nfields = \"text\"\n\
            [method.probe]\nkind = \"random\"\n[run]\nchunk = 4\n"
            .to_owned();
        for (service, model, more) in MODELS {
            // A digest is cached beside the weights, and must not be written into the fixtures.
            let folder = dir.path().join(model);
            std::fs::create_dir(&folder).unwrap();
            for file in std::fs::read_dir(fixture(model)).unwrap() {
                let file = file.unwrap();
                std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
            }
            text += &format!("[service.{service}]\nkind = \"lm\"\nmodel = {model:?}\nthreads = 1\n{more}\n");
        }
        let job = Job::parse(&text, &dir.path().join("job.toml"), &[]).unwrap();
        let bench = Self { dir, job };
        // Builds the corpus before several tests use it at once.
        drop(bench.catalogue());
        bench
    }

    fn places(&self, store: &str) -> Places {
        let store = Store::open(self.dir.path().join(store).to_str().unwrap()).unwrap();
        Places { store, cache: Cache::new(self.dir.path().join("cache")), threads: 1 }
    }

    /// The services of a run on a machine with its corpus and without models.
    fn without_models(&self, run: &OpenRun) -> Catalogue {
        let mut job = self.job.clone();
        for service in job.service.values_mut() {
            if let ServiceEntry::Lm(settings) = service {
                settings.model = "gone".to_owned();
            }
        }
        let corpus = Arc::clone(&run.configurations().unwrap().catalogue.corpus);
        Catalogue::open(
            corpus,
            &job.service,
            &run.places.cache,
            1,
            job.run.mode,
            &DatasetQuestions::default(),
            &|_, _| (),
        )
        .unwrap()
    }

    /// The job's services.
    pub(crate) fn catalogue(&self) -> Catalogue {
        let Places { cache, .. } = self.places("none");
        OpenedJob::open(&self.job, &cache, 1, false, &|_, _| ()).unwrap().catalogue
    }

    /// The bytes of its indexes, by name.
    pub(crate) fn indexes(&self) -> BTreeMap<OsString, Vec<u8>> {
        let files = std::fs::read_dir(self.dir.path().join("cache/indexes")).unwrap().map(Result::unwrap);
        files.map(|file| (file.file_name(), std::fs::read(file.path()).unwrap())).collect()
    }

    /// Evaluates the job, with [`Probe`] in the place of its method.
    pub(crate) fn evaluate(&self, store: &str, workers: usize) -> EvaluationResult {
        let places = self.places(store);
        let run = make_run(&self.job, &places, None, &|_| Ok(()), &|_, _| ()).unwrap();
        let mut open = OpenRun::open(&places, &run, &|_, _| ()).unwrap();
        let catalogue = Arc::clone(&open.configurations().unwrap().catalogue);
        open.set_configurations(RunConfigurations::new(vec![Box::new(Probe::default())], catalogue));
        let number = fence_log(&places.store, &open.record, "test", 1, workers).unwrap();
        open.open_services(&|_, _| ()).unwrap();
        let (generation, commit_thread) = Generation::join(open, number, Some("test")).unwrap();
        let generation = Arc::new(generation);
        let shared = Arc::clone(&generation);
        let guards = timely::execute(timely::Config::process(workers), move |worker| {
            shared.make_indexes(worker).and_then(|()| shared.build_dataflow(worker)).unwrap();
            while worker.has_dataflows() {
                worker.step_or_park(Some(Duration::from_millis(20)));
            }
        })
        .unwrap();
        guards.join().into_iter().for_each(|worker| worker.unwrap());
        let mut log = commit_thread.unwrap().join().unwrap().unwrap();
        if let Some(error) = generation.fault.take() {
            panic!("{error}");
        }
        let mesh = (1, workers as u32);
        tables::finish(&generation.run, &mut log, number, "test", mesh, &|_, _| ()).unwrap();
        let place = |table: &str| layout::final_table(&run, table);
        let bytes = |table: &str| places.store.get(&place(table)).unwrap().to_vec();
        let outcomes = read_table::<FinalOutcomeRow>(&places.store, &place("outcomes")).unwrap();
        // A transcript needs no model: the models are deleted, and the journal has their answers.
        let mut elsewhere = OpenRun::open(&places, &run, &|_, _| ()).unwrap();
        let catalogue = Arc::new(self.without_models(&elsewhere));
        elsewhere.set_configurations(RunConfigurations::new(vec![Box::new(Probe::default())], catalogue));
        let rows = elsewhere.questions_from(&log, 0).unwrap();
        let question = rows.map(Result::unwrap).nth(3).unwrap();
        let transcript = transcript(&elsewhere, 0, &question).unwrap();
        assert_eq!(transcript.outcome.answer, outcomes[3].answer);
        EvaluationResult {
            tables: ["outcomes", "scores", "measures"].map(bytes).into(),
            answers: outcomes.into_iter().map(|outcome| outcome.answer.unwrap()).collect(),
            costs: read_table(&places.store, &place("costs")).unwrap(),
        }
    }
}
