//! With any answers, every machine ends after a bounded number of rounds, without a panic, and its ranking names each
//! passage once.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use hopeval_methods::request::{GeneratePayload, TextFormat};
use hopeval_methods::response::{FinishReason, Generation, RetrievalHit};
use hopeval_methods::testing::{EveryKind, NonsenseServices, ScriptedServices, parameter_variants};
use hopeval_methods::{
    Answer, AnswerWork, FailureKind, MachineStep, Method, MethodSetting, OutcomeStatus, PassageId, Question, Request,
    RequestKind, RequestPayload, Response, build_method, method_kinds,
};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const SETTING: MethodSetting = MethodSetting::of_corpus(200_000);

/// Rounds within which every method must end under the parameters that its documentation names.
const MOST_ROUNDS: usize = 64;

/// Every method, under its defaults and with each parameter changed by itself. A method in the registry's table is
/// tested by this alone; the rows of [`chosen_configurations`] say more of some.
fn documented_configurations() -> Vec<(Box<dyn Method>, usize)> {
    let variants = method_kinds().iter().flat_map(|info| {
        let variants = parameter_variants(info);
        let built: Vec<_> =
            variants.iter().filter_map(|variant| build_method(info.kind, variant, &SETTING).ok()).collect();
        assert!(!built.is_empty(), "{} is refused under all of its documented values", info.kind);
        built
    });
    variants.map(|method| (method, MOST_ROUNDS)).collect()
}

/// Configurations that meet more of a method, with the exact number of rounds that it may take at most.
fn chosen_configurations() -> Vec<(Box<dyn Method>, usize)> {
    let configurations = [
        ("efficientrag", json!({"retriever": "s", "labeler": "l", "filter": "f"}), 11),
        ("efficientrag", json!({"retriever": "s", "labeler": "l", "filter": "f", "reader": "r", "pool": "all"}), 12),
        (
            "efficientrag",
            json!({"retriever": "s", "labeler": "l", "filter": "f", "exclude_seen": true, "max_iterations": 9,
                "order": "tag", "pool": "all", "empty_query": "retrieve"}),
            26,
        ),
        (
            "efficientrag",
            json!({"retriever": "s", "labeler": "l", "filter": "f", "generator": "g", "temperature": 0.5}),
            14,
        ),
        ("efficientrag", json!({"retriever": "s", "labeler": "l", "filter": "f", "tags": 3}), 11),
        ("efficientrag_data", json!({"generator": "g", "retriever": "s", "most_steps": 3}), 5),
        ("efficientrag_data", json!({"generator": "g", "retriever": "s", "temperature": 1.0, "attempts": 4}), 37),
        ("fsm", json!({"generator": "g"}), 55),
        (
            "fsm",
            json!({"generator": "g", "setting": 2, "most_rounds": 2, "repairs": 0, "backtracks": 3, "history": 9}),
            30,
        ),
        ("fsm", json!({"generator": "g", "variant": "fsm1", "judge": false, "limit_words": false}), 55),
        ("fsm", json!({"generator": "g", "as": "code", "most_rounds": 3, "setting": 2}), 33),
        ("fsm_baseline", json!({"generator": "g", "prompt": "normal", "setting": 2}), 2),
        ("fsm_baseline", json!({"generator": "g", "prompt": "react", "as": "code"}), 2),
        ("one_step", json!({"retriever": "s"}), 1),
        ("given", json!({"retriever": "s"}), 1),
        ("given", json!({"order": "dataset"}), 0),
        ("oracle", json!({}), 0),
        ("random", json!({"k": 1000}), 0),
        ("random", json!({"from": "candidates"}), 0),
        ("tfidf_bm25", json!({"retriever": "t", "reranker": "b"}), 3),
        ("tfidf_bm25", json!({"retriever": "t", "reranker": "b", "expand": 1, "links_per_passage": 0}), 3),
        ("tfidf_bm25", json!({"retriever": "t", "link_ranker": "l", "as": "code"}), 3),
        ("alce", json!({"retriever": "s", "reranker": "r", "generator": "g", "variant": "sentences"}), 4),
        ("alce", json!({"retriever": "s", "reranker": "r", "generator": "g", "variant": "summ"}), 13),
        ("alce", json!({"retriever": "s", "reranker": "r", "generator": "g", "entailer": "e", "variant": "rerank"}), 4),
        (
            "migres",
            json!({"retriever": "s", "reranker": "r", "generator": "g", "entailer": "e", "threshold": -0.5}),
            48,
        ),
        (
            "migres",
            json!({"retriever": "s", "mixture": "d", "reranker": "r", "generator": "g", "entailer": "e",
                "as": "code", "parser": "tolerant", "draws": 3, "iterations": 2, "forward_queries": "each",
                "threshold": -9.0}),
            24,
        ),
        ("iterative_title", json!({"retriever": "s"}), 5),
        ("iterative_title", json!({"retriever": "s", "hops": 9, "beam": 4, "query": "question+title"}), 17),
        ("decompose", json!({"generator": "g", "retriever": "s"}), 3),
        ("decompose", json!({"generator": "g", "retriever": "s", "as": "code"}), 7),
        ("decompose", json!({"generator": "g", "retriever": "s", "mode": "sequential", "as": "code"}), 46),
        ("iter_retgen", json!({"generator": "g", "retriever": "s"}), 4),
        ("iter_retgen", json!({"generator": "g", "retriever": "s", "as": "code"}), 12),
        ("self_ask", json!({"generator": "g", "retriever": "s"}), 32),
        ("self_ask", json!({"generator": "g", "retriever": "s", "as": "code"}), 41),
        ("self_ask", json!({"generator": "g", "retriever": "s", "evidence": "documents", "first_retrieval": true}), 23),
        ("react", json!({"generator": "g", "retriever": "s"}), 28),
        ("react", json!({"generator": "g", "retriever": "s", "most_steps": 1}), 4),
        ("promptrank", json!({"retriever": "t", "scorer": "lm"}), 5),
        ("promptrank", json!({"retriever": "t", "scorer": "lm", "hops": 1, "ensemble": "token_median"}), 2),
        (
            "promptrank",
            json!({"retriever": "t", "scorer": "lm", "rerank": "passage", "hops": 3, "overflow": "right"}),
            8,
        ),
        (
            "promptrank",
            json!({
                "retriever": "t", "scorer": "lm", "link_ranker": "l", "link_ties": "later", "hops": 4,
                "next_hops": [7, 3], "links_per_passage": [4, 2], "instructions": "hopeval:five", "reader": "r",
                "score_end": false, "demonstrations": [{"texts": ["A text."], "question": "Which?"}],
                "document_score": "longest",
            }),
            12,
        ),
    ];
    let mut methods: Vec<(Box<dyn Method>, usize)> = configurations
        .into_iter()
        .map(|(kind, parameters, rounds)| (build_method(kind, &parameters, &SETTING).unwrap(), rounds))
        .collect();
    methods.push((Box::new(EveryKind::default()), 6));
    methods
}

/// Texts without any form.
const NONSENSE: &str = "random words";

type Adversary = Box<dyn Fn(&Request) -> Response>;

/// What keeps a generative method going: a long list, one more follow-up question, one more search.
fn endless_text(generate: &GeneratePayload) -> Generation {
    let number = generate.stop.first().and_then(|stop| stop.strip_prefix("\nObservation ")?.strip_suffix(':'));
    let text = match (&generate.format, number) {
        (TextFormat::Json, _) => {
            json!({"decomposed_questions": vec!["Which?"; 99], "thought": "So.", "answer": "#1"}).to_string()
        }
        (_, Some("1")) => "One.\nAction 1: Search[passage_3]".to_owned(),
        (_, Some(number)) => format!("More.\nAction {number}: Search[No such page]"),
        (_, None) => " Yes.\nFollow up: Which?".to_owned(),
    };
    Generation::new(text, FinishReason::Stop)
}

/// Ways to answer badly.
fn adversaries() -> Vec<(&'static str, Adversary)> {
    let answer = |answer: Answer| Response::answer(answer, AnswerWork::default());
    let huge = || (0..2_000).map(PassageId).collect::<Vec<_>>();
    let mut all: Vec<(&'static str, Adversary)> = vec![
        ("hits only", Box::new(move |_| answer(Answer::Retrieve(Vec::new())))),
        ("links only", Box::new(move |_| answer(Answer::Links(vec![PassageId(0)])))),
        ("entailment only", Box::new(move |_| answer(Answer::Entail(1.0)))),
        ("scripted", Box::new(|request| ScriptedServices::new(50, 1).answer(request))),
        (
            "empty lists",
            Box::new(move |request| {
                let mut response = ScriptedServices::new(50, 1).answer(request);
                if let Ok(Answer::Retrieve(hits)) = &mut response.result {
                    hits.clear();
                }
                if let Ok(Answer::Links(ids) | Answer::Passages(ids)) = &mut response.result {
                    ids.clear();
                }
                response.passages.clear();
                response
            }),
        ),
        (
            "huge lists of passages that need not exist",
            Box::new(move |request| {
                let mut response = ScriptedServices::new(50, 1).answer(request);
                match &mut response.result {
                    Ok(Answer::Retrieve(hits)) => {
                        let hit = |passage: PassageId| RetrievalHit { passage, score: f64::from(passage.0 % 7) };
                        hits.extend(huge().into_iter().chain([PassageId(u32::MAX)]).map(hit));
                    }
                    Ok(Answer::Links(ids) | Answer::Passages(ids)) => ids.extend(huge()),
                    _ => {}
                }
                response
            }),
        ),
        (
            "scores that are no numbers",
            Box::new(move |request| match request.ask.kind() {
                RequestKind::Retrieve => {
                    answer(Answer::Retrieve(vec![RetrievalHit { passage: PassageId(0), score: f64::NAN }]))
                }
                _ => ScriptedServices::new(50, 1).answer(request),
            }),
        ),
        (
            "generators that never come to an end",
            Box::new(move |request| match &request.ask {
                RequestPayload::Generate(generate) => answer(Answer::Generate(endless_text(generate))),
                _ => ScriptedServices::new(50, 1).answer(request),
            }),
        ),
        (
            "every passage links to the same one",
            Box::new(move |request| match request.ask.kind() {
                RequestKind::Links => answer(Answer::Links(vec![PassageId(0); 3])),
                RequestKind::Retrieve => {
                    answer(Answer::Retrieve(vec![RetrievalHit { passage: PassageId(0), score: 1.0 }; 5]))
                }
                _ => ScriptedServices::new(50, 1).answer(request),
            }),
        ),
    ];
    for kind in FailureKind::ALL {
        all.push((kind.name(), Box::new(move |_| Response::failure(kind, "always"))));
    }
    for seed in 0..6 {
        let services = ScriptedServices::new(50, seed);
        for (name, objects) in [(NONSENSE, false), ("random objects", true)] {
            let nonsense = NonsenseServices { services, objects };
            all.push((name, Box::new(move |request| nonsense.answer(request))));
        }
    }
    for seed in 0..20 {
        let services = ScriptedServices { failures_per_mille: 300, ..ScriptedServices::new(50, seed) };
        all.push(("some failures", Box::new(move |request| services.answer(request))));
    }
    all
}

#[test]
fn machines_end() {
    let questions = [
        Question::default(),
        Question {
            id: "q".to_owned(),
            text: "Who?".to_owned(),
            candidates: vec![PassageId(3), PassageId(3), PassageId(1)],
            gold: vec![vec![PassageId(3)], vec![PassageId(3)], Vec::new()],
            ..Question::default()
        },
    ];
    for (method, most) in documented_configurations().into_iter().chain(chosen_configurations()) {
        for (name, adversary) in adversaries() {
            for question in &questions {
                let what = format!("{} against {name}", method.kind());
                let mut machine = method.start(question);
                let mut responses = Vec::new();
                let mut rounds = 0;
                let mut asked: BTreeMap<RequestKind, u64> = BTreeMap::new();
                let outcome = loop {
                    match machine.step(std::mem::take(&mut responses)) {
                        MachineStep::Done(outcome) => break outcome,
                        MachineStep::Ask(requests) => {
                            assert!(!requests.is_empty(), "{what}: asks for nothing");
                            for request in &requests {
                                *asked.entry(request.ask.kind()).or_default() += 1;
                            }
                            responses = requests.iter().map(&adversary).collect();
                        }
                    }
                    rounds += 1;
                    assert!(rounds <= most, "{what}: round {rounds} of {most}");
                };
                let passages: BTreeSet<PassageId> = outcome.ranked.iter().map(|entry| entry.passage).collect();
                assert_eq!(passages.len(), outcome.ranked.len(), "{what}: a passage twice");
                let descending = outcome.ranked.is_sorted_by(|a, b| a.score.total_cmp(&b.score).is_ge());
                assert!(descending, "{what}: not best first");
                if let Some(most) = method.most_requests() {
                    let most: BTreeMap<RequestKind, u64> = most.into_iter().collect();
                    for (kind, requests) in asked {
                        let most = most.get(&kind).copied().unwrap_or(0);
                        assert!(requests <= most, "{what}: {requests} of kind {} where {most} are most", kind.name());
                    }
                }
                if name == NONSENSE && method.has_form() && !question.candidates.is_empty() {
                    assert_eq!(outcome.format, Some(false), "{what}: words without a form");
                }
                let most = method.most_ranked().unwrap_or(u32::MAX) as usize;
                assert!(outcome.ranked.len() <= most, "{what}: {} ranked, {most} at most", outcome.ranked.len());
                if matches!(outcome.status, OutcomeStatus::Failed(_)) {
                    assert!(outcome.ranked.is_empty() && outcome.answer.is_none(), "{what}: failed with a result");
                }
            }
        }
    }
}

#[test]
fn a_round_without_responses_is_a_failure_not_a_panic() {
    let gold = vec![vec![PassageId(1)]];
    let question = Question { candidates: vec![PassageId(1)], gold, ..Question::default() };
    let all = documented_configurations().into_iter().chain(chosen_configurations());
    for (method, rounds) in all.filter(|(method, _)| !method.service_uses().is_empty()) {
        let mut machine = method.start(&question);
        assert!(matches!(machine.step(Vec::new()), MachineStep::Ask(_)), "{} asks {rounds} rounds", method.kind());
        let MachineStep::Done(outcome) = machine.step(Vec::new()) else { panic!("{} goes on", method.kind()) };
        assert_eq!(outcome.status.name(), "dropped", "{}", method.kind());
    }
}

/// The authors' code scores the paths of all expanded passages anew with each of them: 45 prompts for 15 paths.
#[test]
fn promptrank_asks_nothing_twice() {
    let common = json!({"retriever": "t", "scorer": "lm", "reader": "r", "hops": 4, "first_hops": 3, "pool": 20});
    for rerank in ["path", "passage"] {
        let mut parameters = common.clone();
        parameters["rerank"] = rerank.into();
        let method = build_method("promptrank", &parameters, &MethodSetting::of_corpus(50)).unwrap();
        let mut scored = 0;
        for seed in 0..50 {
            let services = ScriptedServices::new(50, seed);
            let mut machine = method.start(&Question { text: format!("Which is {seed}?"), ..Question::default() });
            let (mut responses, mut asked) = (Vec::new(), BTreeSet::new());
            while let MachineStep::Ask(requests) = machine.step(std::mem::take(&mut responses)) {
                for request in &requests {
                    let mut payload = Vec::new();
                    request.append_canonical(&mut payload);
                    let kind = request.ask.kind();
                    scored += u32::from(kind == RequestKind::Score);
                    assert!(asked.insert((request.service.clone(), kind, payload)), "{rerank}, seed {seed}: {request}");
                }
                responses = requests.iter().map(|request| services.answer(request)).collect();
            }
        }
        assert!(scored > 50 * 20, "{rerank}: no path is ever scored");
    }
}
