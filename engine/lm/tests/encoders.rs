//! Encoders and their heads compute the numbers of transformers: `fixtures/README.md` describes the making of its
//! outputs.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a panic, or what was compared, is the report of a test")]

use hopeval_checkpoint::Checkpoint;
use hopeval_device::cpu::InstructionSet;
use hopeval_device::{Cpu, Device, DeviceError, Packing, PendingRead, Reference};
use hopeval_lm::architectures::open_encoder;
use hopeval_lm::heads::{self, CheckpointHeads, HeadKind, HostRows, Pooling, best_span, highest_logit};
use hopeval_lm::{Encoder, LmError, PackedBatch};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The largest accepted absolute difference from transformers, in states, logits and embeddings.
const TOLERANCE: f32 = 1e-4;

const FIXTURES: [&str; 17] = [
    "bert",
    "bert-sequence",
    "bert-token",
    "deberta-v2-absolute",
    "deberta-v2-c2p",
    "deberta-v2-p2c",
    "deberta-v2-plain",
    "deberta-v3-256",
    "deberta-v3-sequence",
    "deberta-v3-token",
    "efficientrag-labeler",
    "efficientrag-labeler-3",
    "electra-sequence",
    "electra-span",
    "roberta-rerank",
    "roberta-token",
    "xlm-roberta",
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Sequences of a fixture, with transformers' outputs for them.
struct Expected {
    summary: Value,
    tensors: Vec<u8>,
}

impl Expected {
    fn open(name: &str) -> Self {
        let text = std::fs::read(folder(name).join("expected.json")).unwrap();
        let tensors = std::fs::read(folder(name).join("expected.safetensors")).unwrap();
        Self { summary: serde_json::from_slice(&text).unwrap(), tensors }
    }

    fn tensor(&self, name: &str) -> Vec<f32> {
        let tensors = SafeTensors::deserialize(&self.tensors).unwrap();
        let bytes = tensors.tensor(name).unwrap_or_else(|error| panic!("{name}: {error}")).data();
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    fn sequences(&self) -> &[Value] {
        self.summary["sequences"].as_array().unwrap()
    }

    fn has(&self, head: &str) -> bool {
        self.summary["heads"].as_array().unwrap().contains(&json!(head))
    }
}

fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

/// Packs sequences and encodes them.
fn encode<D: Device>(device: &D, encoder: &dyn Encoder<D>, sequences: &[Value]) -> (D::Tensor, Packing) {
    let (mut ids, mut types, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    for sequence in sequences {
        let these = numbers(&sequence["ids"]);
        lengths.push(these.len());
        types.extend(sequence.get("token_type_ids").map_or_else(|| vec![0; these.len()], numbers));
        ids.extend(these);
    }
    if types.iter().all(|t| *t == 0) {
        types.clear();
    }
    let positions = lengths.iter().flat_map(|n| 0..*n as u32).collect::<Vec<_>>();
    let packing = Packing::of_lengths(lengths);
    let batch = PackedBatch { ids: &ids, positions: &positions, type_ids: &types, packing: &packing };
    (encoder.encode(device, &batch).unwrap(), packing)
}

/// The rows once they are there.
fn read<T: Send + 'static>(requested: Result<PendingRead<T>, DeviceError>) -> T {
    requested.and_then(PendingRead::read).unwrap()
}

/// All outputs of a checkpoint for packed sequences, one table for each tensor of the fixture; rows of sequences stay
/// together.
fn outputs<D: Device>(
    device: &D,
    encoder: &dyn Encoder<D>,
    heads: &CheckpointHeads<D>,
    sequences: &[Value],
) -> BTreeMap<String, Vec<Vec<f32>>> {
    let (states, packing) = encode(device, encoder, sequences);
    let by_token = |rows: HostRows| {
        let rows = rows.iter().map(<[f32]>::to_vec).collect::<Vec<_>>();
        (0..packing.len()).map(|s| rows[packing.query_rows(s)].concat()).collect::<Vec<_>>()
    };
    let by_sequence = |rows: HostRows| rows.iter().map(<[f32]>::to_vec).collect::<Vec<_>>();
    let column = |values: Vec<f32>| by_token(HostRows { columns: 1, values });
    let mut out = BTreeMap::from([("hidden".to_owned(), by_token(read(HostRows::from_tensor(device, &states))))]);
    for (name, pooling) in [("cls", Pooling::Cls), ("mean", Pooling::Mean)] {
        for (suffix, normalize) in [("", false), (".normalized", true)] {
            let rows = read(pooling.embed(device, &states, &packing, normalize));
            out.insert(format!("embedding.{name}{suffix}"), by_sequence(rows));
        }
    }
    if let Ok(classifier) = heads.token_classifier() {
        out.insert("token_logits".into(), by_token(read(classifier.logits(device, &states))));
    }
    if let Ok(classifier) = heads.sequence_classifier() {
        out.insert("sequence_logits".into(), by_sequence(read(classifier.logits(device, &states, &packing))));
    }
    if let Ok(reader) = heads.span_reader() {
        let logits = read(reader.logits(device, &states, &packing));
        out.insert("start_logits".into(), column(logits.start));
        out.insert("end_logits".into(), column(logits.end));
        if let Some(rank) = logits.rank {
            out.insert("rank".into(), rank.into_iter().map(|score| vec![score]).collect());
        }
    }
    out
}

fn difference(name: &str, found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len(), "{name}: how many numbers");
    assert!(found.iter().all(|x| x.is_finite()), "{name}: {found:?}");
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Compares all outputs in the fixture; returns the largest difference.
fn compare(name: &str, expected: &Expected, found: &BTreeMap<String, Vec<Vec<f32>>>) -> f32 {
    let mut largest = 0.0_f32;
    let mut check = |tensor: String, found: &[f32]| {
        let difference = difference(&tensor, found, &expected.tensor(&tensor));
        assert!(difference < TOLERANCE, "{name}: {tensor} differs by {difference}");
        largest = largest.max(difference);
    };
    for (i, sequence) in expected.sequences().iter().enumerate() {
        check(format!("hidden.{i}"), &found["hidden"][i]);
        if expected.has("embed") {
            for tensor in ["embedding.mean", "embedding.cls", "embedding.mean.normalized", "embedding.cls.normalized"] {
                check(format!("{tensor}.{i}"), &found[tensor][i]);
            }
        }
        if expected.has("token") {
            let logits = &found["token_logits"][i];
            check(format!("token_logits.{i}"), logits);
            let labels = logits.chunks(logits.len() / numbers(&sequence["ids"]).len()).filter_map(highest_logit);
            assert_eq!(json!(labels.collect::<Vec<_>>()), sequence["token_labels"], "{name}: labels of {i}");
        }
        if expected.has("sequence") {
            let logits = &found["sequence_logits"][i];
            check(format!("sequence_logits.{i}"), logits);
            if let Some(label) = sequence.get("label") {
                assert_eq!(&json!(highest_logit(logits)), label, "{name}: label of {i}");
            }
        }
        if expected.has("span") {
            let (start, end) = (&found["start_logits"][i], &found["end_logits"][i]);
            check(format!("start_logits.{i}"), start);
            check(format!("end_logits.{i}"), end);
            if let Some(span) = sequence.get("span") {
                let types = numbers(&sequence["token_type_ids"]);
                let context = types.iter().position(|t| *t == 1).unwrap()..types.len() - 1;
                let longest = expected.summary["longest_answer"].as_u64().unwrap() as usize;
                let best = best_span(start, end, context, longest).unwrap();
                assert_eq!(&json!([best.tokens.start, best.tokens.end - 1]), span, "{name}: span of {i}");
            }
        }
    }
    largest
}

fn bits(outputs: &BTreeMap<String, Vec<Vec<f32>>>, sequence: usize) -> BTreeMap<&str, Vec<u32>> {
    let of = |rows: &Vec<Vec<f32>>| rows[sequence].iter().map(|x| x.to_bits()).collect();
    outputs.iter().map(|(name, rows)| (name.as_str(), of(rows))).collect()
}

/// One batch of all sequences agrees with transformers, and to the bit with each sequence alone.
fn parity<D: Device>(device: &D) {
    for name in FIXTURES {
        let expected = Expected::open(name);
        let checkpoint = Checkpoint::open(&folder(name)).unwrap();
        let encoder = open_encoder(&checkpoint, device).unwrap();
        let heads = heads::open(&checkpoint, device).unwrap();
        let found = outputs(device, encoder.as_ref(), &heads, expected.sequences());
        let largest = compare(name, &expected, &found);
        println!("{name:24} {largest:.2e}");
        for (i, sequence) in expected.sequences().iter().enumerate() {
            let alone = outputs(device, encoder.as_ref(), &heads, std::slice::from_ref(sequence));
            assert_eq!(bits(&alone, 0), bits(&found, i), "{name}: sequence {i} alone");
        }
    }
}

#[test]
fn the_reference_agrees_with_transformers() {
    parity(&Reference);
}

#[test]
fn the_cpu_agrees_with_transformers() {
    let available = InstructionSet::available();
    if available.is_empty() {
        eprintln!("SKIPPED: this processor lacks AVX2");
    }
    for isa in available {
        println!("{}", isa.name());
        parity(&Cpu::with_isa(isa, Some(2)).unwrap());
    }
}

/// Fixtures hold exactly their intended heads.
#[test]
fn heads_are_those_of_the_checkpoint() {
    for name in FIXTURES {
        let (expected, checkpoint) = (Expected::open(name), Checkpoint::open(&folder(name)).unwrap());
        let kinds = heads::open(&checkpoint, &Reference).unwrap().kinds();
        for (head, kind) in [
            ("token", HeadKind::TokenClassifier),
            ("sequence", HeadKind::SequenceClassifier),
            ("span", HeadKind::SpanReader),
        ] {
            assert_eq!(kinds.contains(&kind), expected.has(head), "{name}: {head}");
        }
        assert_eq!(kinds.contains(&HeadKind::CrossEncoder), name == "roberta-rerank", "{name}");
    }
}

#[test]
fn labels_have_their_names() {
    let open = |name: &str| heads::open(&Checkpoint::open(&folder(name)).unwrap(), &Reference).unwrap();
    assert_eq!(open("bert-sequence").sequence_classifier().unwrap().labels(), ["no", "maybe", "yes"]);
    assert_eq!(open("roberta-token").token_classifier().unwrap().labels(), ["LABEL_0", "LABEL_1", "LABEL_2"]);
    let labeler = open("efficientrag-labeler-3");
    assert_eq!(labeler.token_classifier().unwrap().labels(), ["LABEL_0", "LABEL_1"]);
    assert_eq!(labeler.sequence_classifier().unwrap().labels(), ["<CONTINUE>", "<TERMINATE>", "<FINISH>"]);
}

#[test]
fn a_missing_head_is_an_error_with_the_existing_ones() {
    let open = |name: &str| heads::open(&Checkpoint::open(&folder(name)).unwrap(), &Reference).unwrap();
    let message = |error: LmError| error.to_string();
    let missing = message(open("bert-sequence").token_classifier().unwrap_err());
    assert!(
        missing.ends_with(
            "this checkpoint has no token classifier; it has: sequence classifier of 3 labels, pooled embedding"
        ),
        "{missing}"
    );
    let bare = message(open("bert").span_reader().unwrap_err());
    assert!(bare.ends_with("has no span reader; it has: pooled embedding"), "{bare}");
    let three = message(open("bert-sequence").cross_encoder().unwrap_err());
    assert!(three.contains("no cross-encoder (a sequence classifier with one label)"), "{three}");
}

/// A copy of a fixture with a changeable configuration and changeable tensors.
struct Copy {
    config: Value,
    /// `(shape, numbers)` by name.
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
}

impl Copy {
    fn of(name: &str) -> Self {
        let config = serde_json::from_slice(&std::fs::read(folder(name).join("config.json")).unwrap()).unwrap();
        let checkpoint = Checkpoint::open(&folder(name)).unwrap();
        let tensor = |name: &str| {
            let tensor = checkpoint.get(name).unwrap();
            (name.to_owned(), (tensor.shape.clone(), tensor.to_f32()))
        };
        Self { config, tensors: checkpoint.names().map(tensor).collect() }
    }

    fn set(mut self, field: &str, value: Value) -> Self {
        self.config[field] = value;
        self
    }

    fn without(mut self, tensor: &str) -> Self {
        self.tensors.remove(tensor).unwrap();
        self
    }

    fn with(mut self, tensor: &str, shape: &[usize], value: impl Fn(usize) -> f32) -> Self {
        let numbers = (0..shape.iter().product()).map(value).collect();
        self.tensors.insert(tensor.into(), (shape.to_vec(), numbers));
        self
    }

    fn renamed(mut self, name: impl Fn(&str) -> String) -> Self {
        self.tensors = self.tensors.into_iter().map(|(old, tensor)| (name(&old), tensor)).collect();
        self
    }

    fn open(&self) -> Checkpoint {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), self.config.to_string()).unwrap();
        let bytes = |numbers: &[f32]| numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
        let tensors = self.tensors.iter().map(|(name, (shape, x))| (name, shape, bytes(x))).collect::<Vec<_>>();
        let views = tensors.iter().map(|(name, shape, bytes)| {
            (name.as_str(), TensorView::new(safetensors::Dtype::F32, shape.to_vec(), bytes).unwrap())
        });
        safetensors::serialize_to_file(views, None, &folder.path().join("model.safetensors")).unwrap();
        // The mapped file outlives its name.
        Checkpoint::open(folder.path()).unwrap()
    }

    /// The error of opening the encoder or the heads.
    fn refused(&self) -> String {
        let checkpoint = self.open();
        let result = open_encoder(&checkpoint, &Reference).and_then(|_| heads::open(&checkpoint, &Reference));
        result.expect_err("an error").to_string()
    }
}

/// The outputs of a changed copy for the fixture's sequences.
fn outputs_of(copy: &Copy, expected: &Expected) -> BTreeMap<String, Vec<Vec<f32>>> {
    let checkpoint = copy.open();
    let encoder = open_encoder(&checkpoint, &Reference).unwrap();
    let heads = heads::open(&checkpoint, &Reference).unwrap();
    outputs(&Reference, encoder.as_ref(), &heads, expected.sequences())
}

#[test]
fn configurations_of_transformers_4_mean_the_same() {
    let mut compared = 0;
    for name in FIXTURES {
        let Ok(text) = std::fs::read(folder(name).join("config.transformers4.json")) else { continue };
        let copy = Copy { config: serde_json::from_slice(&text).unwrap(), ..Copy::of(name) };
        let expected = Expected::open(name);
        compare(name, &expected, &outputs_of(&copy, &expected));
        compared += 1;
    }
    assert!(compared >= 4, "only {compared} fixtures have a configuration of transformers 4");
}

#[test]
fn names_may_lack_the_prefix_and_be_tensorflows() {
    let expected = Expected::open("bert-token");
    let old =
        |name: &str| name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
    compare("gamma", &expected, &outputs_of(&Copy::of("bert-token").renamed(old), &expected));
    let bare = |name: &str| name.trim_start_matches("bert.").to_owned();
    compare("bare", &expected, &outputs_of(&Copy::of("bert-token").renamed(bare), &expected));
}

/// Without `architectures`, the tensors decide.
#[test]
fn heads_are_found_by_their_tensors() {
    for name in ["bert-sequence", "bert-token", "electra-span", "roberta-rerank", "deberta-v3-sequence"] {
        let expected = Expected::open(name);
        compare(name, &expected, &outputs_of(&Copy::of(name).set("architectures", Value::Null), &expected));
    }
}

/// A number in (-1, 1), spread over the indices.
fn spread(index: usize) -> f32 {
    (index as f32 * 12.9898).sin()
}

/// MDR's reader (`mdr/qa/qa_model.py`): ELECTRA under `encoder`, its own pooler, `qa_outputs`, a rank head, and `sp`,
/// its logits of supporting sentences; nothing here reads `sp`.
#[test]
fn a_reader_with_a_rank_head_ranks() {
    let expected = Expected::open("electra-span");
    let hidden = 24;
    let reader = Copy::of("electra-span")
        .renamed(|name| name.replace("electra.", "encoder."))
        .set("architectures", json!(["ElectraForPreTraining"]))
        .with("pooler.dense.weight", &[hidden, hidden], |i| 0.3 * spread(i))
        .with("pooler.dense.bias", &[hidden], |i| 0.1 * spread(i + 7))
        .with("rank.weight", &[1, hidden], |i| spread(i + 31))
        .with("rank.bias", &[1], |_| 0.25)
        .with("sp.weight", &[1, hidden], spread)
        .with("sp.bias", &[1], |_| 0.5);
    let found = outputs_of(&reader, &expected);
    compare("reader", &expected, &found);
    for (i, rank) in found["rank"].iter().enumerate() {
        let first = &expected.tensor(&format!("hidden.{i}"))[..hidden];
        let pooled = |row: usize| {
            let product = (0..hidden).map(|k| first[k] * 0.3 * spread(row * hidden + k)).sum::<f32>();
            (product + 0.1 * spread(row + 7)).tanh()
        };
        let score = (0..hidden).map(|row| pooled(row) * spread(row + 31)).sum::<f32>() + 0.25;
        assert!((score - rank[0]).abs() < TOLERANCE, "rank of {i}: {score} and {rank:?}");
    }
    // A reader trained without them still reads spans.
    let bare = ["pooler.dense.weight", "pooler.dense.bias", "rank.weight", "rank.bias", "sp.weight", "sp.bias"];
    let found = outputs_of(&bare.into_iter().fold(reader, Copy::without), &expected);
    compare("reader without a rank head", &expected, &found);
    assert!(!found.contains_key("rank"));
}

/// The paper's labeler: the mean of all states, and a linear layer.
#[test]
fn a_labeler_without_a_pooler_takes_the_mean() {
    let name = "efficientrag-labeler";
    let expected = Expected::open(name);
    let hidden = 24;
    let paper = Copy::of(name).without("pooler.dense.weight").without("pooler.dense.bias");
    let (_, weight) = &paper.tensors["sequence_classifier.weight"];
    let (_, bias) = &paper.tensors["sequence_classifier.bias"];
    let found = outputs_of(&paper, &expected);
    for (i, logits) in found["sequence_logits"].iter().enumerate() {
        let states = expected.tensor(&format!("hidden.{i}"));
        let rows = states.len() / hidden;
        let mean = |k: usize| (0..rows).map(|row| states[row * hidden + k]).sum::<f32>() / rows as f32;
        for (label, logit) in logits.iter().enumerate() {
            let product = (0..hidden).map(|k| mean(k) * weight[label * hidden + k]).sum::<f32>() + bias[label];
            assert!((product - logit).abs() < TOLERANCE, "label {label} of {i}: {product} and {logit}");
        }
    }
    let first = outputs_of(&paper.set("classifier_pooling", json!("cls")), &expected);
    assert_ne!(first["sequence_logits"], found["sequence_logits"]);
    let averaged = outputs_of(&Copy::of(name).set("classifier_pooling", json!("mean")), &expected);
    // A sequence of one token has one mean.
    assert_eq!(averaged["hidden"][0].len(), hidden);
    let alone = difference("mean of one", &averaged["sequence_logits"][0], &expected.tensor("sequence_logits.0"));
    assert!(alone < TOLERANCE, "{alone}");
    let longer = difference("mean of several", &averaged["sequence_logits"][3], &expected.tensor("sequence_logits.3"));
    assert!(longer > 1e-2, "{longer}");
}

#[test]
fn errors_name_tensor_and_field() {
    let says = |copy: Copy, parts: &[&str]| {
        let message = copy.refused();
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    };
    let bert = || Copy::of("bert-sequence");
    let deberta = || Copy::of("deberta-v3-token");
    let query = "bert.encoder.layer.1.attention.self.query.weight";
    says(bert().without(query), &["no tensor", query, "[24, 24]"]);
    says(bert().with(query, &[24, 23], spread), &[query, "expected shape [24, 24]", "found [24, 23]"]);
    says(bert().without("classifier.bias"), &["no tensor classifier.bias", "[3]"]);
    says(bert().without("bert.pooler.dense.weight"), &["no tensor bert.pooler.dense.weight"]);
    says(
        bert().without("bert.embeddings.word_embeddings.weight"),
        &["no tensor bert.embeddings.word_embeddings.weight"],
    );
    says(bert().set("id2label", json!({"0": "no", "1": "yes"})), &["classifier.weight", "expected shape [2, 24]"]);
    says(bert().set("position_embedding_type", json!("relative_key")), &["position_embedding_type", "absolute"]);
    says(bert().set("num_attention_heads", json!(5)), &["num_attention_heads", "divisor of hidden_size 24", "found 5"]);
    says(bert().set("hidden_act", json!("quick_gelu")), &["hidden_act", "gelu_new", "quick_gelu"]);
    says(bert().set("is_decoder", json!(true)), &["is_decoder", "only false"]);
    says(bert().set("model_type", json!("deberta")), &["model_type", "deberta-v2", "\"deberta\""]);
    says(bert().set("model_type", json!("gpt2")), &["model_type", "electra"]);
    says(deberta().set("conv_kernel_size", json!(3)), &["conv_kernel_size", "expected 0", "found 3"]);
    says(deberta().set("pos_att_type", json!(["p2c", "p2p"])), &["pos_att_type", "c2p", "\"p2p\""]);
    says(deberta().set("norm_rel_ebd", json!("batch_norm")), &["norm_rel_ebd", "layer_norm", "batch_norm"]);
    says(deberta().set("position_buckets", json!(1)), &["position_buckets", "found 1"]);
    says(deberta().set("attention_head_size", json!(16)), &["attention_head_size", "8", "found 16"]);
    says(deberta().set("position_buckets", json!(9)), &["rel_embeddings.weight", "[18, 24]", "[16, 24]"]);
    says(Copy::of("roberta-token").set("pad_token_id", json!(66)), &["max_position_embeddings", "67", "66"]);
    says(
        Copy::of("efficientrag-labeler").set("classifier_pooling", json!("max")),
        &["classifier_pooling", "cls, mean"],
    );
}
