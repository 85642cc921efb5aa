//! Proves the protocol with a machine that uses all of it: every request kind, draws, failures, prompt budgets, texts.

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]

use hopeval_methods::testing::{EveryKind, ScriptedServices};
use hopeval_methods::{
    Answer, FailureKind, Machine, MachineStep, Method, OutcomeStatus, OverflowRule, PassageId, Question, Request,
    RequestKind, RequestPayload, Response, Transcript,
};
use std::collections::{BTreeMap, BTreeSet};

fn question(number: u32) -> Question {
    Question {
        id: format!("q{number}"),
        text: format!("Who made thing {number} that passage {} tells of?", number * 7),
        candidates: (0..10).map(PassageId).collect(),
        ..Question::default()
    }
}

fn transcript(services: ScriptedServices, number: u32) -> Transcript {
    let mut answer = |request: &Request| Some(services.answer(request));
    Transcript::replay(&EveryKind::default(), "every_kind", &question(number), &mut answer).unwrap()
}

fn requests(transcript: &Transcript) -> impl Iterator<Item = &Request> {
    transcript.rounds.iter().flat_map(|round| &round.requests)
}

#[test]
fn all_kinds_are_asked_and_announced() {
    let transcript = transcript(ScriptedServices::new(500, 1), 1);
    let asked: BTreeSet<RequestKind> = requests(&transcript).map(|request| request.ask.kind()).collect();
    assert_eq!(asked, BTreeSet::from(RequestKind::ALL));
    let announced = EveryKind::default().service_uses();
    for request in requests(&transcript) {
        let uses = |service: &hopeval_methods::ServiceUse| {
            service.service == request.service && service.kind == request.ask.kind()
        };
        assert!(announced.iter().any(uses), "{request}");
    }
    assert_eq!(transcript.outcome.status, OutcomeStatus::Ok);
    assert!(transcript.outcome.answer.is_some());
    assert!(!transcript.outcome.paths.is_empty());
}

#[test]
fn answers_are_of_the_kind_asked() {
    let transcript = transcript(ScriptedServices::new(500, 1), 1);
    for round in &transcript.rounds {
        for (request, response) in round.requests.iter().zip(&round.responses) {
            assert_eq!(response.result.as_ref().unwrap().kind(), request.ask.kind());
            let named = response.result.as_ref().unwrap().passages().len();
            assert_eq!(response.passages.len(), if request.wants_text() { named } else { 0 });
        }
    }
}

#[test]
fn draws_number_samples_of_one_payload() {
    let transcript = transcript(ScriptedServices::new(500, 1), 1);
    let draws: Vec<&Request> =
        requests(&transcript).filter(|request| request.ask.kind() == RequestKind::Generate).collect();
    assert_eq!(draws.iter().map(|request| request.draw).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(draws.iter().all(|request| request.ask == draws[0].ask));
}

#[test]
fn a_question_is_a_function_of_its_responses() {
    for failures_per_mille in [0, 300] {
        let services = ScriptedServices { failures_per_mille, ..ScriptedServices::new(500, 2) };
        for number in 0..50 {
            let first = transcript(services, number);
            assert_eq!(transcript(services, number), first);
            // From what a journal would hold: responses by key, in any order, each once.
            let key = |request: &Request| {
                let mut key = Vec::new();
                request.append_canonical(&mut key);
                (request.ask.kind(), request.service.clone(), request.draw, key)
            };
            let journal: BTreeMap<_, Response> = first
                .rounds
                .iter()
                .flat_map(|round| round.requests.iter().map(key).zip(round.responses.iter().cloned()))
                .collect();
            let mut answer = |request: &Request| journal.get(&key(request)).cloned();
            let again = Transcript::replay(&EveryKind::default(), "every_kind", &question(number), &mut answer);
            assert_eq!(again.unwrap(), first);
        }
    }
}

#[test]
fn other_questions_and_other_answers_lead_elsewhere() {
    let base = transcript(ScriptedServices::new(500, 1), 1);
    assert_ne!(transcript(ScriptedServices::new(500, 1), 2).outcome, base.outcome);
    assert_ne!(transcript(ScriptedServices::new(500, 2), 1).outcome, base.outcome);
}

#[test]
fn failures_of_any_kind_are_survived() {
    let services = ScriptedServices { failures_per_mille: 400, ..ScriptedServices::new(500, 3) };
    let (mut failed, mut redrawn) = (BTreeSet::new(), 0);
    for number in 0..300 {
        let transcript = transcript(services, number);
        let responses = transcript.rounds.iter().flat_map(|round| &round.responses);
        failed.extend(responses.filter_map(|response| Some(response.result.as_ref().err()?.kind)));
        redrawn += u32::from(requests(&transcript).any(|request| request.draw > 2));
        assert!(transcript.rounds.len() <= 6);
        // Only the first retrieval must not fail.
        let first = transcript.rounds[0].responses[0].result.is_ok();
        assert_eq!(transcript.outcome.status == OutcomeStatus::Ok, first);
    }
    assert_eq!(failed, BTreeSet::from(FailureKind::ALL));
    assert!(redrawn > 0);
}

#[test]
fn prompts_obey_their_budgets() {
    let services = ScriptedServices::new(500, 1);
    let (mut dropped, mut cut) = (0, 0);
    for number in 0..50 {
        for request in requests(&transcript(services, number)) {
            let RequestPayload::Score(score) = &request.ask else { continue };
            let (text, report) = services.assemble_prompt(&score.prompt).unwrap();
            assert_eq!(text.split_whitespace().count(), report.tokens as usize);
            assert!(report.tokens <= score.prompt.budget.unwrap());
            assert!(text.ends_with("Ask a question."), "what no rule names is never cut: {text}");
            dropped += report.dropped.len();
            cut += report.cut.len();
        }
    }
    assert!(dropped > 0 && cut > 0);
}

#[test]
fn a_prompt_that_cannot_fit_fails() {
    let services = ScriptedServices::new(500, 1);
    let transcript = transcript(services, 1);
    let score = requests(&transcript).find_map(|request| match &request.ask {
        RequestPayload::Score(score) => Some(score.clone()),
        _ => None,
    });
    let mut prompt = score.unwrap().prompt;
    prompt.budget = Some(2);
    assert_eq!(services.assemble_prompt(&prompt).unwrap_err().kind, FailureKind::ContextOverflow);
    prompt.overflow.insert(0, OverflowRule::Drop { part: 99 });
    assert_eq!(services.assemble_prompt(&prompt).unwrap_err().kind, FailureKind::Refused);
}

#[test]
fn a_replay_stops_at_what_is_missing() {
    let services = ScriptedServices::new(500, 1);
    let mut answer = |request: &Request| match request.ask.kind() {
        RequestKind::Label => None,
        _ => Some(services.answer(request)),
    };
    let missing = Transcript::replay(&EveryKind::default(), "every_kind", &question(1), &mut answer).unwrap_err();
    assert_eq!(missing.rounds.len(), 2);
    assert_eq!(missing.request.ask.kind(), RequestKind::Label);
    assert!(missing.to_string().starts_with("round 3 asks for something that has no stored response: label label"));
}

#[test]
fn transcripts_show_requests_answers_titles_and_work() {
    let services = ScriptedServices::new(500, 1);
    let transcript = transcript(services, 1);
    let shown = transcript.display(&|passage| services.passage_text(passage).title).to_string();
    assert!(shown.starts_with("question q1: Who made thing 1 that"));
    for round in 1..=5 {
        assert!(shown.contains(&format!("\nround {round}\n")), "{shown}");
    }
    let best = transcript.outcome.ranked[0].passage;
    assert!(shown.contains(&format!("Passage {best} [{best}]")));
    assert!(shown.contains("parts left out: [0]"));
    assert!(shown.contains("work prompt="));
    assert!(shown.contains(&format!("answer: {}", transcript.outcome.answer.as_ref().unwrap())));
    assert!(shown.lines().all(|line| line.chars().count() < 200));
    // Scores stand in words; a raw transcript has each request and each answer whole, as it is in the journal.
    assert!(shown.contains("log-probability ") && !shown.contains("logits="), "{shown}");
    let raw = transcript.display_raw(&|passage| services.passage_text(passage).title).to_string();
    assert!(raw.contains("scores logits=") && !raw.contains("log-probability "), "{raw}");
    for round in &transcript.rounds {
        for (request, response) in round.requests.iter().zip(&round.responses) {
            assert!(raw.contains(&format!("  {request}\n")), "{request}: {raw}");
            if let Ok(answer @ (Answer::Score(_) | Answer::Label(_) | Answer::Rerank(_))) = &response.result {
                assert!(raw.contains(&format!("    {answer}\n")), "{answer}: {raw}");
            }
        }
    }
}

#[test]
fn scripted_responses_survive_their_notation() {
    let services = ScriptedServices { failures_per_mille: 100, ..ScriptedServices::new(500, 4) };
    for number in 0..20 {
        for response in transcript(services, number).rounds.into_iter().flat_map(|round| round.responses) {
            let line = response.to_string();
            assert!(!line.contains('\n'));
            assert_eq!(line.parse::<Response>().unwrap(), response, "{line}");
        }
    }
}

/// The machine may not hold on to anything but its own state: two that run in turns do not disturb each other.
#[test]
fn machines_are_independent() {
    let services = ScriptedServices::new(500, 1);
    let mut machines: Vec<Box<dyn Machine>> = (0..2).map(|n| EveryKind::default().start(&question(n))).collect();
    let mut pending: Vec<Vec<Response>> = vec![Vec::new(); 2];
    let mut outcomes = vec![None; 2];
    while outcomes.iter().any(Option::is_none) {
        for index in 0..2 {
            if outcomes[index].is_none() {
                match machines[index].step(std::mem::take(&mut pending[index])) {
                    MachineStep::Ask(requests) => {
                        pending[index] = requests.iter().map(|r| services.answer(r)).collect()
                    }
                    MachineStep::Done(outcome) => outcomes[index] = Some(outcome),
                }
            }
        }
    }
    for (number, outcome) in (0..).zip(outcomes) {
        assert_eq!(outcome, Some(transcript(services, number).outcome));
    }
}
