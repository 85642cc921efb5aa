//! Language models as services of a run: tiny models with every head, a method with every kind of request, any number
//! of workers.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

mod lm {
    pub(crate) mod evaluate;
    pub(crate) mod probe;
}

use hopeval_jobs::services::catalogue::Catalogue;
use hopeval_jobs::services::dense::build::IndexBuild;
use hopeval_methods::request::{
    EmbedPayload, EmbedRole, EntailPayload, FilterPayload, GeneratePayload, LabelPayload, PassageId, ReadPayload,
    RerankPayload, RetrievePayload, Sampling, SamplingPenalties, ScorePayload, Statistics, TextFormat,
};
use hopeval_methods::{
    Answer, Content, ContextMode, Failure, FailureKind, Fragment, Machine, Method, MethodSetting, PassageForm, Prompt,
    PromptPart, Question, Request, RequestPayload, ServiceAbility, ServiceName, ServiceUse,
};
use hopeval_results::tables::CostRow;
use lm::evaluate::{Bench, fixture};
use lm::probe::Probe;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

static BENCH: LazyLock<Bench> = LazyLock::new(Bench::new);

fn expected(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(fixture(name).join("expected.json")).unwrap()).unwrap()
}

fn rows<'a>(expected: &'a Value, name: &str) -> &'a [Value] {
    expected[name].as_array().unwrap()
}

fn text(row: &Value, name: &str) -> String {
    row[name].as_str().unwrap().to_owned()
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

fn ask(catalogue: &Catalogue, service: &str, ask: impl Into<RequestPayload>) -> (Answer, hopeval_methods::Response) {
    let response = catalogue.answer(&Request::new(&ServiceName::from(service), ask));
    (response.result.clone().unwrap(), response)
}

fn close(found: impl IntoIterator<Item = f64>, expected: &[f64]) {
    let found: Vec<f64> = found.into_iter().collect();
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?} and {expected:?}");
}

#[test]
fn scores_are_those_of_transformers() {
    let catalogue = BENCH.catalogue();
    for (service, name) in [("score", "t5-v1.1"), ("generate", "gpt2")] {
        for row in rows(&expected(name), "text_scores") {
            let temperatures = vec![1.4, 1.0];
            let score = ScorePayload {
                prompt: Prompt::text(text(row, "prompt")),
                target: Prompt::text(text(row, "target")),
                temperatures,
            };
            let (answer, response) = ask(&catalogue, service, score);
            let Answer::Score(scores) = answer else { panic!("{answer:?}") };
            assert_eq!(scores.ends, name == "t5-v1.1");
            for t in [1.0, 1.4] {
                close(scores.logprobs(t).unwrap(), &floats(&row["logprobs"][format!("{t:.1}")]));
            }
            let prompt = rows(row, "prompt_ids").len();
            assert_eq!(response.prompt.unwrap().tokens as usize, prompt);
            assert_eq!(response.work.scored_tokens as usize, rows(row, "target_ids").len());
            assert!(response.work.operations > 0);
        }
    }
}

#[test]
fn encoder_answers_are_those_of_transformers() {
    let catalogue = BENCH.catalogue();
    let pairs = expected("roberta-rerank");
    let pairs: Vec<_> = rows(&pairs, "texts").iter().filter(|row| row["text_pair"].is_string()).collect();
    assert!(!pairs.is_empty());
    for row in pairs {
        let items = vec![Content::Text(text(row, "text_pair")); 2];
        let (answer, _) = ask(&catalogue, "rerank", RerankPayload { query: text(row, "text"), items });
        let Answer::Rerank(logits) = answer else { panic!("{answer:?}") };
        let logit = row["sequence_logits"][0].as_f64().unwrap();
        close(logits, &[logit, logit]);
    }
    for row in rows(&expected("electra-span"), "texts") {
        let context = text(row, "text_pair");
        // The fixture's longest answer, and the context in two parts.
        let max_answer_tokens = expected("electra-span")["longest_answer"].as_u64().unwrap() as u32;
        let cut = context.find(", designed").or(context.find(' ')).unwrap();
        let parts = [&context[..cut], &context[cut..]].map(PromptPart::text).into();
        let prompt = Prompt { parts, ..Prompt::default() };
        let read = ReadPayload {
            question: text(row, "text"),
            context: prompt,
            max_answer_tokens,
            spans: 3,
            ..ReadPayload::default()
        };
        let (answer, _) = ask(&catalogue, "read", read);
        let Answer::Read(spans) = answer else { panic!("{answer:?}") };
        assert_eq!((spans.len(), spans[0].text.as_str()), (3, row["answer"].as_str().unwrap()));
        let (from, to) = (row["offsets"][0].as_u64().unwrap() as usize, row["offsets"][1].as_u64().unwrap() as usize);
        let bytes = |n: usize| context.char_indices().nth(n).map_or(context.len(), |(at, _)| at);
        let (from, to) = (bytes(from), bytes(to));
        let at = if to <= cut { Some((0, from, to)) } else { (from >= cut).then(|| (1, from - cut, to - cut)) };
        assert_eq!(spans[0].at, at.map(|(part, from, to)| (part, from as u32, to as u32)));
    }
    let embed = |service: &str, content: &str| {
        let embed = EmbedPayload { text: Content::Text(content.to_owned()), role: EmbedRole::Query };
        match ask(&catalogue, service, embed).0 {
            Answer::Embed(vector) => vector,
            other => panic!("{other:?}"),
        }
    };
    let whole = embed("embed", "Greta restored the castle of Hallstadt in 1931.");
    let length = whole.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
    assert!((length - 1.0).abs() < 1e-6, "the service normalises");
    // Longer than the model's positions: cut, not refused.
    let long = "the castle of Hallstadt ".repeat(40);
    assert_eq!(embed("embed", &long), embed("embed", &long.repeat(2)));
}

/// A text of variable length, and requests of each kind with such a text.
fn castle(times: usize) -> String {
    "castle ".repeat(times)
}

fn label(times: usize) -> RequestPayload {
    LabelPayload { query: "who?".into(), chunk: Content::Text(castle(times)) }.into()
}

fn filter(times: usize) -> RequestPayload {
    FilterPayload { query: "who?".into(), information: vec![castle(times)] }.into()
}

fn rerank(times: usize) -> RequestPayload {
    RerankPayload { query: "who?".into(), items: [1, times].map(|times| Content::Text(castle(times))).into() }.into()
}

fn entail(times: usize) -> RequestPayload {
    EntailPayload { premise: Prompt::text("a"), hypothesis: castle(times) }.into()
}

fn read(times: usize) -> RequestPayload {
    ReadPayload {
        question: "who?".into(),
        context: Prompt::text(castle(times)),
        max_answer_tokens: 3,
        spans: 1,
        ..ReadPayload::default()
    }
    .into()
}

fn embed(times: usize) -> RequestPayload {
    EmbedPayload { text: Content::Text(castle(times)), role: EmbedRole::Passage }.into()
}

/// For each kind, a text within the model's limit and a longer one.
#[test]
fn what_is_cut_to_fit_is_reported() {
    let catalogue = BENCH.catalogue();
    let report = |service: &str, request: RequestPayload| ask(&catalogue, service, request).1.prompt.unwrap();
    type OfLength = fn(usize) -> RequestPayload;
    let kinds: [(&str, u32, OfLength); 6] = [
        ("label", 1, label),
        ("filter", 0, filter),
        ("rerank", 2, rerank),
        ("entail", 1, entail),
        ("read", 0, read),
        ("embed", 0, embed),
    ];
    for (service, part, of) in kinds {
        let whole = report(service, of(2));
        assert!(!whole.is_cut() && whole.tokens > 2, "{service}: {whole:?}");
        let [longer, longest] = [1000, 2000].map(|n| report(service, of(n)));
        assert_eq!(longer.tokens, longest.tokens, "{service}: the model takes no more");
        let lost = |found: &hopeval_methods::PromptReport| match found.cut[..] {
            [(cut, lost)] if cut == part && found.dropped.is_empty() => lost,
            _ => panic!("{service}: {found:?}"),
        };
        let tokens = (report(service, of(3)).tokens - whole.tokens) * 1000;
        assert_eq!(lost(&longest) - lost(&longer), tokens, "{service}: {longer:?}, {longest:?}");
    }
    let question = ReadPayload {
        question: castle(500),
        context: Prompt::text("a"),
        max_answer_tokens: 3,
        spans: 1,
        ..ReadPayload::default()
    };
    let cut = report("read", question.into()).cut;
    assert!(matches!(cut[..], [(1, _)]), "the question, behind the context's part: {cut:?}");
    let retrieved = |times: usize| ask(&catalogue, "dense", RetrievePayload::new(castle(times), 3)).1;
    assert_eq!([2, 1000].map(|times| retrieved(times).is_cut()), [Some(false), Some(true)]);
}

/// A dense index against vectors requested one by one.
#[test]
fn dense_retrieval_is_the_inner_products_of_embeddings() {
    let catalogue = BENCH.catalogue();
    catalogue.open_all(&|_, _| ()).unwrap();
    let vector = |text: Content, role| match ask(&catalogue, "embed", EmbedPayload { text, role }).0 {
        Answer::Embed(vector) => vector,
        other => panic!("{other:?}"),
    };
    let query = "Who restored the castle of Hallstadt?";
    let wanted = vector(Content::Text(query.into()), EmbedRole::Query);
    let form = PassageForm::TitleAndText { between: " ".into() };
    let score = |passage: u32| {
        let text = Content::Passage { passage: PassageId(passage), form: form.clone() };
        let found = vector(text, EmbedRole::Passage);
        wanted.iter().zip(found).map(|(a, b)| f64::from(*a) * f64::from(b)).sum::<f64>()
    };
    let hits = |service: &str, retrieve: RetrievePayload| match ask(&catalogue, service, retrieve).0 {
        Answer::Retrieve(hits) => hits,
        other => panic!("{other:?}"),
    };
    let found = hits("dense", RetrievePayload::new(query, 7));
    assert_eq!(found.len(), 7);
    let mut scores: Vec<f64> = (0..catalogue.corpus.len() as u32).map(score).collect();
    found.iter().for_each(|hit| close([hit.score], &[scores[hit.passage.0 as usize]]));
    scores.sort_by(|a, b| b.total_cmp(a));
    close(found.iter().map(|hit| hit.score), &scores[..7]);
    let passages = vec![PassageId(3), PassageId(200)];
    let restricted = hits("dense", RetrievePayload::new(query, 7).within(passages, Statistics::Corpus));
    assert_eq!(restricted.len(), 2);
    assert!(restricted.iter().all(|hit| [3, 200].contains(&hit.passage.0)));
}

/// A plan builds nothing, lists the builds of a run, and invents missing answers.
#[test]
fn a_dense_index_that_is_not_there_is_looked_at_and_not_built() {
    let bench = Bench::new();
    let catalogue = bench.catalogue();
    // In the order of the services' names: dense, half, and the word index, built on opening.
    let to_embed = |catalogue: &Catalogue| -> Vec<u64> {
        catalogue.probe(&|_, _| ()).unwrap().values().map(|found| found.passages_to_embed).collect()
    };
    assert_eq!(to_embed(&catalogue), [400, 400, 0]);
    let request = Request::new(&ServiceName::from("dense"), RetrievePayload::new("Who restored the castle?", 7));
    let made_up = catalogue.estimate(&request);
    let Ok(Answer::Retrieve(hits)) = &made_up.result else { panic!("{made_up:?}") };
    let passages: std::collections::BTreeSet<u32> = hits.iter().map(|hit| hit.passage.0).collect();
    assert_eq!((passages.len(), made_up.work.prompt_tokens > 0), (7, true));
    assert_eq!(to_embed(&catalogue), [400, 400, 0], "nothing was built");
    catalogue.open_all(&|_, _| ()).unwrap();
    let found = catalogue.probe(&|_, _| ()).unwrap();
    assert!(found.values().all(|found| found.passages_to_embed == 0 && found.bytes > 400 * 32));
}

/// Three workers of two processes with different folders; the first two workers are in one process.
#[test]
fn every_place_without_an_index_gets_the_same_file() {
    let [alone, one, other, late] = [(); 4].map(|()| Bench::new());
    alone.catalogue().open_all(&|_, _| ()).unwrap();
    let expected = alone.indexes();
    assert_eq!(expected.len(), 3, "one of words and two of vectors");
    let make = |members: Vec<(Arc<Catalogue>, Arc<IndexBuild>)>| {
        let workers = members.len();
        let guards = timely::execute(timely::Config::process(workers), move |worker| {
            let (catalogue, building) = &members[worker.index()];
            catalogue.make_indexes(worker, building).unwrap();
        });
        guards.unwrap().join().into_iter().for_each(|ended| ended.unwrap());
    };
    let process = |bench: &Bench| (Arc::new(bench.catalogue()), Arc::new(IndexBuild::default()));
    let (first, second) = (process(&one), process(&other));
    make(vec![first.clone(), first, second]);
    assert!(one.indexes() == expected && other.indexes() == expected);
    // One process has them already, and another gets them with its help.
    make(vec![process(&late), process(&one)]);
    assert!(late.indexes() == expected && one.indexes() == expected);
}

#[test]
fn continuations_repeat_and_draws_differ() {
    let catalogue = BENCH.catalogue();
    let generate = |temperature: f64| GeneratePayload {
        prompt: Prompt::text("Document: The bridge of Arlen"),
        max_tokens: 12,
        stop: Vec::new(),
        sampling: Sampling::sample(temperature, 1.0, 0),
        format: TextFormat::Text,
        logprobs: true,
    };
    let drawn = |temperature: f64, draw: u32| {
        let request = Request { draw, ..Request::new(&ServiceName::from("generate"), generate(temperature)) };
        catalogue.answer(&request).generation().unwrap()
    };
    assert_eq!(drawn(1.0, 3), drawn(1.0, 3));
    assert_ne!(drawn(1.0, 3).text, drawn(1.0, 4).text);
    let greedy = drawn(0.0, 0);
    assert_eq!(greedy, drawn(0.0, 9));
    assert_eq!(greedy.logprobs.len(), 12);
    // A stop string ends the text before it.
    let stop = greedy.text.chars().skip(4).take(2).collect::<String>();
    let stopped = GeneratePayload { stop: vec![stop.clone()], ..generate(0.0) };
    let stopped = catalogue.answer(&Request::new(&ServiceName::from("generate"), stopped)).generation().unwrap();
    assert_eq!(stopped.text, greedy.text.split(&stop).next().unwrap());
    assert_eq!((stopped.stop, greedy.stop), (Some(stop), None));
}

/// What such a model lacks is refused by name, and never ignored.
#[test]
fn wishes_that_a_local_model_cannot_fulfil_are_refused() {
    let catalogue = BENCH.catalogue();
    let plain = GeneratePayload {
        prompt: Prompt::text("Document: The bridge of Arlen"),
        max_tokens: 2,
        stop: Vec::new(),
        sampling: Sampling::Greedy,
        format: TextFormat::Text,
        logprobs: false,
    };
    let penalties = SamplingPenalties { repetition: 1.1, ..SamplingPenalties::default() };
    let penalised = Sampling::Sample { temperature: 0.8, top_p: 0.8, top_k: 0, penalties };
    for (wish, lack) in [
        (GeneratePayload { sampling: Sampling::Server, ..plain.clone() }, "no sampling of its own"),
        (GeneratePayload { sampling: penalised, ..plain.clone() }, "no penalties"),
        (GeneratePayload { format: TextFormat::Schema("{}".to_owned()), ..plain }, "no texts of a given schema"),
    ] {
        let failure = catalogue.answer(&Request::new(&ServiceName::from("generate"), wish)).generation().unwrap_err();
        assert_eq!(failure.kind, FailureKind::Refused);
        assert!(failure.message.contains(lack), "{}", failure.message);
    }
}

/// Has a text for prompts, and asks for nothing.
struct Demonstrated(Fragment);

impl Method for Demonstrated {
    fn kind(&self) -> &'static str {
        "demonstrated"
    }

    fn version(&self) -> u32 {
        1
    }

    fn context_mode(&self) -> ContextMode {
        ContextMode::Open
    }

    fn gives_answers(&self) -> bool {
        true
    }

    fn most_ranked(&self) -> Option<u32> {
        Some(0)
    }

    fn fragments(&self) -> Vec<Fragment> {
        vec![self.0.clone()]
    }

    fn service_uses(&self) -> Vec<ServiceUse> {
        Vec::new()
    }

    fn start(&self, _: &Question) -> Box<dyn Machine> {
        unreachable!("nothing starts it")
    }
}

#[test]
fn a_fragment_reads_like_its_text_and_an_unknown_one_is_unavailable() {
    let catalogue = BENCH.catalogue();
    let fragment = Fragment::new("Document: the castle of Breda. Question: who?");
    let scored = |first: PromptPart| {
        let parts = vec![first, PromptPart::text(" Document: the bridge.")];
        let prompt = Prompt { parts, count_parts: true, ..Prompt::default() };
        let score = ScorePayload { prompt, target: Prompt::text("who?"), temperatures: vec![1.0] };
        catalogue.answer(&Request::new(&ServiceName::from("score"), score))
    };
    let unknown = scored(PromptPart::fragment(fragment.digest())).result.unwrap_err();
    // A process that lacks a fragment says nothing about the request: its failure is of this run alone.
    assert_eq!(unknown.kind, FailureKind::Unavailable);
    assert!(unknown.message.contains(&fragment.digest().to_string()), "{}", unknown.message);
    catalogue.fragments().add_methods([&Demonstrated(fragment.clone()) as &dyn Method]);
    let known = scored(PromptPart::fragment(fragment.digest()));
    assert_eq!(known, scored(PromptPart::text(fragment.text().as_ref())));
    let report = known.prompt.unwrap();
    assert_eq!(report.part_tokens.len(), 2);
    // The end token belongs to no part.
    assert_eq!(report.part_tokens.iter().sum::<u32>() + 1, report.tokens);
}

#[test]
fn a_lacking_ability_is_said_before_the_run() {
    let catalogue = BENCH.catalogue();
    catalogue.open_all(&|_, _| ()).unwrap();
    let check = |needs: &[ServiceAbility]| {
        let method = Probe { needs: needs.to_vec(), ..Probe::default() };
        catalogue.check_services("probe", &method).map_err(|error| error.to_string())
    };
    assert_eq!(check(&[ServiceAbility::Continue, ServiceAbility::Logprobs]), Ok(()));
    let refused = "configuration `probe`: `generate` = \"generate\": a lm service cannot `json`, `penalties`, \
                   `repetition_penalty`, `server_sampling`; the job has none that answers generate and can `continue`, \
                   `json`, `penalties`, `repetition_penalty`, `server_sampling`";
    let needs = [
        ServiceAbility::Continue,
        ServiceAbility::Json,
        ServiceAbility::Penalties,
        ServiceAbility::RepetitionPenalty,
        ServiceAbility::ServerSampling,
    ];
    assert_eq!(check(&needs), Err(refused.to_owned()));
}

#[test]
fn what_a_checkpoint_does_not_offer_is_said_before_the_run() {
    let catalogue = BENCH.catalogue();
    catalogue.open_all(&|_, _| ()).unwrap();
    assert!(catalogue.check_services("probe", &Probe::default()).is_ok());
    let wrong = Probe { labeler: "score", ..Probe::default() };
    let message = catalogue.check_services("probe", &wrong).unwrap_err().to_string();
    assert!(message.contains("t5-v1.1 answers score, generate, not label; the job has label"), "{message}");
}

/// A labeler with unexpected tags would fail every question.
#[test]
fn a_labeler_with_other_tags_is_said_before_the_run() {
    let catalogue = BENCH.catalogue();
    catalogue.open_all(&|_, _| ()).unwrap();
    let check = |tags: u32| {
        let parameters = json!({"retriever": "dense", "labeler": "label", "filter": "filter", "tags": tags});
        let method =
            hopeval_methods::build_method("efficientrag", &parameters, &MethodSetting::of_corpus(400)).unwrap();
        catalogue.check_services("rounds", method.as_ref()).map_err(|error| error.to_string())
    };
    assert_eq!(check(2), Ok(()));
    let refused = "configuration `rounds`: `labeler` = \"label\": its checkpoint has 2 tags, and `tags` = 3; \
                   the job has label (2 tags)";
    assert_eq!(check(3), Err(refused.to_owned()));
}

#[test]
fn a_prompt_beyond_the_model_is_a_failure_that_every_run_meets() {
    let catalogue = BENCH.catalogue();
    let long = Prompt::text("castle ".repeat(300));
    let score = ScorePayload { prompt: long, target: Prompt::text("who?"), temperatures: vec![1.0] };
    let refused =
        |service: &str, ask: RequestPayload| catalogue.answer(&Request::new(&ServiceName::from(service), ask)).result;
    let Err(Failure { kind, message }) = refused("generate", score.clone().into()) else { panic!() };
    assert_eq!(kind, FailureKind::ContextOverflow, "{message}");
    let hot = ScorePayload { prompt: Prompt::text("a"), temperatures: vec![f64::NAN], ..score };
    assert_eq!(refused("score", hot.into()).unwrap_err().kind, FailureKind::Refused);
}

/// The final tables contain every answer of every kind of service to every question.
#[test]
fn tables_are_independent_of_workers_and_reruns() {
    let alone = BENCH.evaluate("alone", 1);
    assert!(alone.answers.iter().all(|answer| answer.len() > 500 && !answer.contains("Err(")), "{:?}", alone.answers);
    let lm = |costs: &[CostRow]| -> Vec<CostRow> {
        let of_models = |row: &&CostRow| row.configuration.is_none() && row.computed_tokens.is_some();
        costs.iter().filter(of_models).cloned().collect()
    };
    let spent = lm(&alone.costs);
    assert_eq!(spent.len(), 10, "{spent:?}");
    for row in &spent {
        let tokens = row.prompt_tokens + row.completion_tokens + row.scored_tokens;
        assert!(row.computed_tokens.is_some_and(|computed| 0 < computed && computed <= tokens), "{row:?}");
        assert!(row.device_s.is_some_and(|seconds| seconds > 0.0) && row.operations > 0, "{row:?}");
        assert_eq!(row.computed, row.unique);
        let attributed =
            alone.costs.iter().filter(|other| other.configuration.is_some() && other.service == row.service);
        let (mut device_s, mut prompts, mut cut) = (0.0, 0, 0);
        for row in attributed {
            device_s += row.device_s.unwrap();
            prompts += row.prompt_tokens;
            cut += row.cut.unwrap();
        }
        assert!(device_s > 0.0 && prompts >= row.prompt_tokens && Some(cut) >= row.cut, "{row:?}");
        assert!(row.cut <= row.computed, "{row:?}");
        // Passages in prompts are cut to 24 tokens, a labeler's inputs to 60.
        assert!(row.cut > Some(0) || !["score", "label"].contains(&row.service.as_str()), "{row:?}");
    }
    // The answers contain the lost tokens of each response.
    let reported: usize = alone.answers.iter().map(|answer| answer.matches("cut: [(").count()).sum();
    let counted: u64 = alone.costs.iter().filter(|row| row.configuration.is_some()).filter_map(|row| row.cut).sum();
    assert_eq!(counted, reported as u64);
    for workers in [2, 4] {
        let several = BENCH.evaluate(&format!("several-{workers}"), workers);
        assert!(several.tables == alone.tables, "{workers} workers");
    }
    let again = BENCH.evaluate("alone", 2);
    assert!(again.tables == alone.tables);
    let computed: Vec<_> = again.costs.iter().filter_map(|row| row.computed).collect();
    assert!(!computed.is_empty() && computed.iter().all(|&n| n == 0), "{:?}", again.costs);
    assert_eq!(lm(&again.costs), []);
}
