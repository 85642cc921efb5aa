//! Samples of responses: every kind of answer, of failure and of prompt report.

use crate::request::{PassageId, RequestKind};
use crate::response::{
    Answer, AnswerSpan, AnswerWork, CallFacts, ChunkLabels, Failure, FailureKind, FinishReason, Generation,
    MoneyAmount, PassageText, PromptReport, Response, RetrievalHit, TargetScores,
};

/// Characters with an escape in JSON.
const TEXT: &str = "\"n\u{e9}\" \\ \t\n\u{1} \u{2028} \u{1f600}";

/// Samples of responses, each with the kind of its request and a unique name without spaces.
pub fn every_response() -> Vec<(String, RequestKind, Response)> {
    let work = AnswerWork { prompt_tokens: 300, completion_tokens: 0, scored_tokens: 127, operations: (1 << 40) + 128 };
    let report =
        PromptReport { tokens: 300, dropped: vec![0, 200], cut: vec![(1, 70_000), (3, 1)], ..PromptReport::default() };
    let answered = |(name, answer): (&str, Answer)| (name.to_owned(), answer.kind(), Response::answer(answer, work));
    let mut samples: Vec<_> = answers().into_iter().map(answered).collect();
    for kind in FailureKind::ALL {
        let failed = Response { work, ..Response::failure(kind, TEXT) };
        samples.push((format!("failure-{}", kind.name()), RequestKind::Generate, failed));
    }
    let refused = || Failure { kind: FailureKind::Refused, message: String::new() };
    let reports = [
        ("report-whole", PromptReport { tokens: u32::MAX, ..PromptReport::default() }),
        ("report-dropped", PromptReport { cut: Vec::new(), ..report.clone() }),
        ("report-cut", PromptReport { dropped: Vec::new(), ..report.clone() }),
        ("report-both", report),
    ];
    for (name, report) in reports {
        for (of, result) in [("answer", Ok(Answer::Filter("next".to_owned()))), ("failure", Err(refused()))] {
            let response = match result {
                Ok(answer) => Response::answer(answer, AnswerWork::default()),
                Err(failure) => Response::from_failure(failure),
            };
            let response = Response { prompt: Some(report.clone()), ..response };
            samples.push((format!("{name}-{of}"), RequestKind::Filter, response));
        }
    }
    let read = PassageText::new(PassageId(3), "T", TEXT);
    let read = Response { passages: vec![read], ..Response::answer(Answer::Passages(vec![PassageId(3)]), work) };
    samples.push(("passages-with-texts".to_owned(), RequestKind::Passages, read));
    samples.extend(later_samples(work));
    samples
}

/// Responses with the parts that calls to endpoints have.
fn later_samples(work: AnswerWork) -> Vec<(String, RequestKind, Response)> {
    let generated = |generation| Response::answer(Answer::Generate(generation), work);
    let plain = || Generation::new(TEXT, FinishReason::Stop);
    let with_facts = |facts| Response { facts: Some(Box::new(facts)), ..generated(plain()) };
    let facts = CallFacts {
        attempts: 3,
        tokens_measured: true,
        cached_prompt_tokens: Some(128),
        reasoning_tokens: Some(0),
        money: Some(MoneyAmount { nanos: 1_500_000_000_001, currency: "EUR".to_owned() }),
        model: Some("m".to_owned()),
        system_fingerprint: Some(TEXT.to_owned()),
    };
    let part_tokens = PromptReport { tokens: 9, part_tokens: vec![4, 0, 300], ..PromptReport::default() };
    let run_only = Response::failure(FailureKind::ContextOverflow, TEXT).for_this_run();
    let samples = [
        ("generate-filtered", generated(Generation { finish: FinishReason::Filtered, ..plain() })),
        ("generate-stop-string", generated(Generation { stop: Some("\n".to_owned()), ..plain() })),
        ("generate-reasoning", generated(Generation { reasoning: TEXT.to_owned(), ..plain() })),
        ("facts-attempts", with_facts(CallFacts { attempts: 1, ..CallFacts::default() })),
        ("facts", with_facts(facts.clone())),
        ("facts-failure", Response { facts: Some(Box::new(facts)), ..run_only.clone() }),
        ("failure-of-this-run", run_only),
        ("report-parts", Response { prompt: Some(part_tokens), ..generated(plain()) }),
    ];
    samples.map(|(name, response)| (name.to_owned(), RequestKind::Generate, response)).into()
}

fn answers() -> Vec<(&'static str, Answer)> {
    let rows = vec![f32::NEG_INFINITY, -0.1, f32::MIN_POSITIVE, 1e-45, 0.1 + 0.2, f32::MAX, f32::NAN];
    let sums = vec![(1.0, vec![0.3; 7]), (1.4, vec![-7.5; 7])];
    let generation = |text: &str, finish, logprobs| Generation { logprobs, ..Generation::new(text, finish) };
    let span = |rank, at| AnswerSpan { text: TEXT.to_owned(), score: -0.1, rank, at };
    let hit = |passage, score| RetrievalHit { passage: PassageId(passage), score };
    let finite = TargetScores { logits: vec![-0.1, 0.3], log_sum_exps: vec![(1.4, vec![0.1, -7.5])], ends: false };
    vec![
        ("retrieve", Answer::Retrieve(vec![hit(5_000_000, 12.3), hit(0, 0.1 + 0.2), hit(u32::MAX, -0.0)])),
        ("retrieve-none", Answer::Retrieve(Vec::new())),
        ("passages", Answer::Passages(vec![PassageId(3), PassageId(u32::MAX)])),
        ("passages-none", Answer::Passages(Vec::new())),
        ("links", Answer::Links(vec![PassageId(300), PassageId(0)])),
        ("links-none", Answer::Links(Vec::new())),
        ("score", Answer::Score(TargetScores { logits: rows, log_sum_exps: sums, ends: true })),
        ("score-none", Answer::Score(TargetScores { logits: Vec::new(), log_sum_exps: Vec::new(), ends: false })),
        ("label", Answer::Label(ChunkLabels { information: TEXT.to_owned(), tag_logits: vec![1.5, -2.5] })),
        ("filter", Answer::Filter(TEXT.to_owned())),
        ("filter-empty", Answer::Filter(String::new())),
        ("rerank", Answer::Rerank(vec![0.25, -1.0, 0.1 + 0.2, 1e21, 1e-7])),
        ("rerank-none", Answer::Rerank(Vec::new())),
        ("entail", Answer::Entail(0.75)),
        ("entail-whole", Answer::Entail(1.0)),
        ("read", Answer::Read(vec![span(Some(0.7), Some((1, 2, 5))), span(None, None)])),
        ("read-none", Answer::Read(Vec::new())),
        ("embed", Answer::Embed(vec![0.1, -0.2])),
        ("generate-stop", Answer::Generate(generation(TEXT, FinishReason::Stop, vec![-0.5, -0.1]))),
        ("generate-length", Answer::Generate(generation("", FinishReason::Length, Vec::new()))),
        ("score-finite", Answer::Score(finite)),
    ]
}
