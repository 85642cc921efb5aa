//! Pins the identities of services: their definitions, fingerprints, indexes, and the keys of corpora.

use super::tiny::{METHOD, Tiny};
use crate::golden;
use hopeval_index::{Bm25Index, DenseIndex, DenseParameters, TfidfIndex, VectorDtype};
use hopeval_jobs::Job;
use hopeval_jobs::services::ServiceEntry;

/// Kind and settings of services without a model: each default, and each setting changed.
const WITHOUT_MODELS: [(&str, &str); 20] = [
    ("bm25", ""),
    ("bm25", "analyzer = \"whitespace\""),
    ("bm25", "analyzer = \"english\""),
    ("bm25", "fields = \"text\""),
    ("bm25", "fields = \"title,text\""),
    ("bm25", "formula = \"okapi\""),
    ("bm25", "formula = \"atire\""),
    ("bm25", "k1 = 1.2"),
    ("bm25", "b = 0.75"),
    ("bm25", "epsilon = 0"),
    ("bm25", "analyzer = \"word\"\nfields = \"title+text\"\nformula = \"lucene\"\nk1 = 0.9\nb = 0.4\nepsilon = 0.25"),
    ("tfidf", ""),
    ("tfidf", "fields = \"text\""),
    ("tfidf", "ngrams = 1"),
    ("tfidf", "hash_bits = 20"),
    ("tfidf", "ties = \"later\""),
    ("tfidf", "fields = \"title+text\"\nngrams = 2\nhash_bits = 24\nties = \"earlier\""),
    ("link_tfidf", ""),
    ("shuffled_links", ""),
    ("shuffled_links", "seed = 7"),
];

/// Settings of a dense service: each default, and each setting changed.
const DENSE: [&str; 8] = [
    "",
    "dtype = \"f16\"",
    "fields = \"text\"",
    "fields = \"title+title+text\"",
    "fields = \"title+text\"\nbetween = \"\\n\"",
    "fields = \"title+title+text\"\nbetween = \": \"",
    "fields = \"text\"\nbetween = \"of no effect\"",
    "dtype = \"f32\"\nfields = \"title+text\"\nbetween = \" \"",
];

/// Settings of a language model: each default, and each setting changed. The first few only change its speed.
const LM: [&str; 22] = [
    "",
    "threads = 1",
    "batch_tokens = 512",
    "states_tokens = 1024",
    "cache_tokens = 2048",
    "target_eos = false",
    "label_tokens = 128",
    "label_scope = \"sequence\"",
    "label_scope = \"chunk\"",
    "filter_tokens = 64",
    "drop_commas = false",
    "pair_tokens = 64",
    "entail_label = \"yes \\\"1\\\"\"",
    "read_tokens = 64",
    "question_tokens = 32",
    "max_tokens = 64",
    "pooling = \"cls\"",
    "pooling = \"mean\"",
    "normalize = true",
    "query_prefix = \"query: \"",
    "passage_prefix = \"passage: \"",
    "seed = 18446744073709551",
];

/// A tiny model of each kind: they differ in their weights, tokenizers and ends of sequences.
const MODELS: [&str; 7] =
    ["t5-v1.1", "gpt2", "bert", "efficientrag-labeler", "electra-span", "deberta-v3-token", "roberta-rerank"];

const DEVICES: [&str; 7] = ["cpu", "cpu-avx2", "cpu-avx512", "cuda", "cuda:1", "cuda-f32", "cuda-f32:0"];

fn table(name: &str, kind: &str, settings: &str) -> String {
    format!("[service.{name}]\nkind = {kind:?}\n{settings}\n")
}

/// The label of settings in a line.
fn label(settings: &str) -> String {
    if settings.is_empty() { "default".to_owned() } else { settings.replace('\n', ", ") }
}

/// The settings in the form for the run's record and fingerprints.
fn json(service: &ServiceEntry) -> String {
    serde_json::to_string(service).unwrap()
}

#[test]
fn services_without_models_are_those_of_the_golden_file() {
    let tiny = Tiny::new();
    let name = |n: usize| format!("s{n:02}");
    let services = WITHOUT_MODELS.iter().enumerate().map(|(n, (kind, settings))| table(&name(n), kind, settings));
    let job = tiny.job(&(services.collect::<String>() + METHOD));
    let fingerprints = tiny.catalogue(&job).fingerprints();
    let mut lines = vec![
        format!("corpus digest {}", tiny.corpus(&job).digest()),
        format!("corpus fingerprint {}", fingerprints["corpus"]),
    ];
    for (n, (kind, settings)) in WITHOUT_MODELS.iter().enumerate() {
        let service = &job.service[&name(n)];
        lines.push(format!("{kind} {}\n  {}\n  {}", label(settings), json(service), fingerprints[&name(n)]));
        match service {
            ServiceEntry::Bm25(parameters) => lines.push(format!("  {}", Bm25Index::key("digest", parameters))),
            ServiceEntry::Tfidf(parameters) => lines.push(format!("  {}", TfidfIndex::key("digest", parameters))),
            _ => {}
        }
    }
    golden::check("services", lines);
}

/// The settings as JSON, as in the run's record; the model is not opened.
#[test]
fn settings_of_models_are_those_of_the_golden_file() {
    let lm = LM.iter().map(|settings| (label(settings), table("s", "lm", &format!("model = \"m\"\n{settings}"))));
    let devices = DEVICES.iter().map(|device| {
        let settings = format!("device = {device:?}");
        (settings.clone(), table("s", "lm", &format!("model = \"m\"\n{settings}")))
    });
    let dense = DENSE.iter().map(|settings| {
        let encoder = table("e", "lm", "model = \"m\"");
        (format!("dense {}", label(settings)), encoder + &table("s", "dense", &format!("encoder = \"e\"\n{settings}")))
    });
    let tiny = Tiny::new();
    let lines = lm.chain(devices).chain(dense).map(|(label, table)| {
        let job: Job = tiny.job(&(table + METHOD));
        format!("{label}\n  {}", json(&job.service["s"]))
    });
    golden::check("model-settings", lines.collect::<Vec<_>>());
}

/// Fingerprints of models, and of dense services with the names of their indexes.
#[test]
fn models_are_those_of_the_golden_file() {
    let tiny = Tiny::new();
    let mut text = String::new();
    let mut names: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, label: String, table: String| {
        text += &table;
        names.push((name.to_owned(), label));
    };
    let lm = |model: &str, settings: &str| {
        let threads = if settings.starts_with("threads") { "" } else { "threads = 1\n" };
        format!("model = {:?}\ndevice = \"cpu-avx2\"\n{threads}{settings}", tiny.model(model))
    };
    for model in MODELS {
        let name = format!("m-{}", model.replace('.', "_"));
        add(&name, model.to_owned(), table(&name, "lm", &lm(model, "")));
    }
    for (n, settings) in LM.iter().enumerate() {
        let name = format!("lm{n:02}");
        add(&name, format!("bert {}", label(settings)), table(&name, "lm", &lm("bert", settings)));
        let dense = format!("of{n:02}");
        let label = format!("dense of bert {}", label(settings));
        add(&dense, label, table(&dense, "dense", &format!("encoder = {name:?}")));
    }
    for (n, settings) in DENSE.iter().enumerate() {
        let name = format!("dense{n:02}");
        add(
            &name,
            format!("dense {}", label(settings)),
            table(&name, "dense", &format!("encoder = \"m-bert\"\n{settings}")),
        );
    }
    let job = tiny.job(&(text + METHOD));
    let catalogue = tiny.catalogue(&job);
    let fingerprints = catalogue.fingerprints();
    golden::check("models", names.iter().map(|(name, label)| format!("{label} {}", fingerprints[name])));
    // A probe reports each index file once, under its first service.
    let found = catalogue.probe(&|_, _| ()).unwrap();
    let files = found.iter().map(|(name, index)| format!("{name} {}", index.path.file_name().unwrap().display()));
    golden::check("dense-indexes", files);
}

#[test]
fn keys_of_dense_indexes_are_those_of_the_golden_file() {
    let key = |dtype| DenseIndex::key("digest", &DenseParameters { encoder: "encoder".to_owned(), dtype });
    golden::check(
        "dense-keys",
        [VectorDtype::F32, VectorDtype::F16].map(|dtype| format!("{} {}", dtype.name(), key(dtype))),
    );
}

/// Settings of a service with vectors from files: the default, and each setting changed.
const VECTORS: [(&str, &str, &str); 7] = [
    ("\"p.npy\"", "\"q.npy\"", ""),
    ("{ file = \"p.npy\", ids = \"ids.txt\" }", "\"q.npy\"", ""),
    ("{ file = \"p.safetensors\", tensor = \"v\" }", "\"q.npy\"", ""),
    ("\"p.npy\"", "{ file = \"q.npy\", texts = \"texts.txt\" }", ""),
    ("\"p.npy\"", "\"q.npy\"", "metric = \"cosine\""),
    ("\"p.npy\"", "\"q.npy\"", "dtype = \"f16\""),
    ("\"p.npy\"", "\"q.npy\"", "metric = \"inner_product\"\ndtype = \"f32\""),
];

/// Writes files of four vectors for the four passages and the four questions.
fn write_vectors(tiny: &Tiny) {
    let data: Vec<u8> = (1_u8..=8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
    let array = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }";
    let array = [&b"\x93NUMPY\x01\x00"[..], &(array.len() as u16).to_le_bytes(), array, &data].concat();
    let tensor = br#"{"v":{"dtype":"F32","shape":[4,2],"data_offsets":[0,32]}}"#;
    let tensor = [&(tensor.len() as u64).to_le_bytes()[..], tensor, &data].concat();
    tiny.write("p.npy", &array);
    tiny.write("q.npy", &array);
    tiny.write("p.safetensors", &tensor);
    tiny.write("ids.txt", b"d\nc\nb\na\n");
    tiny.write("texts.txt", b"Who?\nWhen?\nWhere?\nWhy?\n");
}

#[test]
fn services_with_vectors_from_files_are_those_of_the_golden_file() {
    let tiny = Tiny::new();
    write_vectors(&tiny);
    let name = |n: usize| format!("s{n:02}");
    let services = VECTORS.iter().enumerate().map(|(n, (passages, questions, more))| {
        table(&name(n), "dense_vectors", &format!("passages = {passages}\nquestions = {questions}\n{more}"))
    });
    let services: String = services.collect();
    let job = tiny.job(&format!("duplicates = \"keep_all\"\n{services}{METHOD}"));
    let catalogue = tiny.catalogue(&job);
    let (fingerprints, files) = (catalogue.fingerprints(), catalogue.probe(&|_, _| ()).unwrap());
    let mut lines = Vec::new();
    for (n, (passages, questions, more)) in VECTORS.iter().enumerate() {
        lines.push(format!("{passages}, {questions}, {}", label(more)));
        lines.push(format!("  {}", fingerprints[&name(n)]));
        // A probe reports each index file once, under its first service.
        lines.extend(files.get(&name(n)).map(|index| format!("  {}", index.path.file_name().unwrap().display())));
    }
    golden::check("dense-vectors", lines);
}

#[test]
fn keys_of_corpora_are_those_of_the_golden_file() {
    let tiny = Tiny::new();
    let mut lines = Vec::new();
    let mut add = |label: &str, job: &Job, set_aside| {
        let (corpus, key) = tiny.cache().find_corpus(job, set_aside, &|_, _| ()).unwrap();
        lines.push(format!("{label} {} {}", key.unwrap(), corpus.digest()));
    };
    add("default", &tiny.job(METHOD), false);
    for duplicates in ["keep_all", "drop_exact"] {
        add(duplicates, &tiny.job(&format!("duplicates = {duplicates:?}\n{METHOD}")), false);
    }
    for links in ["auto", "hyperlinks", "mentions", "none"] {
        add(links, &tiny.job(&format!("links = {links:?}\n{METHOD}")), false);
    }
    let mut contexts = tiny.job(METHOD);
    contexts.corpus.source = serde_json::from_value("contexts".into()).unwrap();
    add("contexts", &contexts, false);
    add("contexts-set-aside", &contexts, true);
    golden::check("corpora", lines);
}
