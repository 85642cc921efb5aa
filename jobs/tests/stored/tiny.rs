//! A corpus of four passages, a dataset of four questions and tiny models, in a folder of their own.

use hopeval_corpus::Corpus;
use hopeval_jobs::Job;
use hopeval_jobs::cache::Cache;
use hopeval_jobs::places::Places;
use hopeval_jobs::prepare::corpora::dataset_spec;
use hopeval_jobs::services::catalogue::Catalogue;
use hopeval_jobs::services::dataset_questions::DatasetQuestions;
use hopeval_results::Store;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Passages with links and sentences, and without; titles and a text that occur twice.
const PASSAGES: &str = r#"{"id": "a", "title": "Castle", "text": "The castle is old. Greta restored it.", "sentences": [18, 37], "links": [{"title": "Greta", "start": 19, "end": 24}]}
{"id": "b", "title": "Greta", "text": "Greta was born in Hallstadt.", "sentences": [28], "links": [{"title": "Castle", "start": 0, "end": 5}, {"title": "Nowhere", "start": 18, "end": 27}]}
{"id": "c", "title": "Castle", "text": "Another castle of the name, by ß.", "sentences": [], "links": []}
{"id": "d", "title": "Greta", "text": "Greta was born in Hallstadt.", "sentences": [], "links": []}
"#;

/// In the order of their ids; the third has no gold.
const QUESTIONS: &str = r#"{"id": "q1", "text": "Where was she born who restored the castle?", "answers": ["Hallstadt", "in Hallstadt"], "gold": [{"id": "a", "title": "Castle"}, {"id": "b", "title": "Greta"}], "candidates": [{"id": "a", "title": "Castle", "text": "The castle is old. Greta restored it."}, {"title": "Elsewhere", "text": "Not there."}], "supporting_facts": [["Castle", 1], ["Greta", 0]], "evidences": [["Greta", "born in", "Hallstadt"]], "decomposition": [{"question": "Who restored it?", "answer": "Greta"}, {"question": "Where was #1 born?"}], "rationale": "Greta did.", "kind": "bridge", "hops": 2, "strata": {"held_out": "yes"}}
{"id": "q2", "text": "Is it \"old\"?", "answers": ["yes"], "gold": [{"id": "c"}], "kind": "comparison"}
{"id": "q3", "text": "Who?", "answers": []}
{"id": "q4", "text": "When?", "answers": ["then"], "gold": [{"id": "b"}], "hops": 1}
"#;

/// The folder and its contents.
pub(crate) struct Tiny {
    dir: tempfile::TempDir,
}

impl Tiny {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("passages.jsonl"), PASSAGES).unwrap();
        std::fs::write(dir.path().join("questions.jsonl"), QUESTIONS).unwrap();
        Self { dir }
    }

    /// The folder of a copied tiny model: a digest is cached beside the weights.
    pub(crate) fn model(&self, name: &str) -> PathBuf {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/lm/tests/fixtures").join(name);
        let folder = self.dir.path().join(name);
        if !folder.is_dir() {
            std::fs::create_dir(&folder).unwrap();
            for file in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
                std::fs::copy(file.path(), folder.join(file.file_name())).unwrap();
            }
        }
        folder
    }

    /// Writes a file beside the job.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.dir.path().join(name), bytes).unwrap();
    }

    /// A job over the files, with further settings.
    pub(crate) fn job(&self, more: &str) -> Job {
        let text = format!(
            "name = \"tiny\"\n[dataset]\nformat = \"world\"\nquestions = \"questions.jsonl\"\n\
             [corpus]\nsource = \"passages.jsonl\"\n{more}"
        );
        Job::parse(&text, &self.dir.path().join("job.toml"), &[]).unwrap()
    }

    pub(crate) fn cache(&self) -> Cache {
        Cache::new(self.dir.path().join("cache"))
    }

    pub(crate) fn places(&self) -> Places {
        Places { store: Store::open("memory:").unwrap(), cache: self.cache(), threads: 1 }
    }

    pub(crate) fn corpus(&self, job: &Job) -> Arc<Corpus> {
        self.cache().corpus(job, &|_, _| ()).unwrap()
    }

    /// The services of a job, open except for missing indexes.
    pub(crate) fn catalogue(&self, job: &Job) -> Catalogue {
        let (corpus, cache) = (self.corpus(job), self.cache());
        let questions = DatasetQuestions::new(dataset_spec(&job.dataset, None));
        let catalogue = Catalogue::open(corpus, &job.service, &cache, 1, job.run.mode, &questions, &|_, _| ()).unwrap();
        catalogue.probe(&|_, _| ()).unwrap();
        catalogue
    }

    /// The text with `DIR` in place of the folder's path.
    pub(crate) fn portable(&self, text: &str) -> String {
        text.replace(&self.dir.path().display().to_string(), "DIR")
    }
}

/// A method, required in every job.
pub(crate) const METHOD: &str = "[method.random]\nkind = \"random\"\n";
