//! Machines over texts that real models wrote (`../shared/data/recorded`): ReAct's transcripts replay to their recorded
//! answers, and least-to-most fills the references of recorded decompositions as their authors did.
//!
//! Self-Ask has no such test: none of the recorded files has its form (the search trajectories mark queries and
//! documents by special tokens).

#![expect(clippy::unwrap_used, reason = "a panic is the report of a test")]
#![expect(clippy::print_stderr, reason = "a test that is skipped says so, and what differs is listed")]

use flate2::read::GzDecoder;
use hopeval_methods::response::{FinishReason, Generation, RetrievalHit};
use hopeval_methods::{
    Answer, AnswerWork, ChatRole, Content, Method, MethodSetting, PassageId, PassageText, Question, Request,
    RequestPayload, Response, Transcript, build_method,
};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A recorded file; `None`, said loudly, without the folder beside the repository.
fn recorded(file: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/recorded");
    if !folder.is_dir() {
        eprintln!("SKIPPED: {file}: no ../shared beside the repository");
        return None;
    }
    let mut text = String::new();
    GzDecoder::new(File::open(folder.join(file)).unwrap()).read_to_string(&mut text).unwrap();
    Some(text)
}

fn method(kind: &str, parameters: Value) -> Box<dyn Method> {
    build_method(kind, &parameters, &MethodSetting::of_corpus(100)).unwrap()
}

fn answer(answer: Answer) -> Response {
    Response::answer(answer, AnswerWork::default())
}

fn written(text: impl Into<String>) -> Response {
    answer(Answer::Generate(Generation::new(text, FinishReason::Stop)))
}

/// One recorded episode of ReAct.
#[derive(Default)]
struct RecordedEpisode {
    /// The line of its question in the file, from 1.
    line: usize,
    question: String,
    steps: Vec<RecordedStep>,
}

/// One of its steps. Texts may have several lines.
#[derive(Default)]
struct RecordedStep {
    line: usize,
    thought: String,
    action: String,
    observation: String,
}

impl RecordedEpisode {
    fn read_all(text: &str) -> Vec<Self> {
        let mut episodes: Vec<Self> = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            if let Some(question) = content.strip_prefix("Question: ") {
                episodes.push(Self { line, question: question.trim().to_owned(), ..Self::default() });
                continue;
            }
            let Some(episode) = episodes.last_mut().filter(|_| !content.starts_with("-----")) else { continue };
            let next = episode.steps.len() + 1;
            if let Some(thought) = content.strip_prefix(&format!("Thought {next}: ")) {
                episode.steps.push(RecordedStep { line, thought: thought.to_owned(), ..RecordedStep::default() });
                continue;
            }
            let number = episode.steps.len();
            let Some(step) = episode.steps.last_mut() else { continue };
            if let Some(action) = content.strip_prefix(&format!("Action {number}: ")) {
                step.action = action.to_owned();
            } else if let Some(observed) = content.strip_prefix(&format!("Observation {number}: ")) {
                step.observation = observed.to_owned();
            } else {
                step.observation.extend(["\n", content]);
            }
        }
        episodes.iter_mut().flat_map(|episode| &mut episode.steps).for_each(RecordedStep::trim);
        episodes
    }

    /// The words between the brackets of the last action, if that finishes; the empty answer of a halted episode.
    fn answer(&self) -> &str {
        let finish = |step: &'_ RecordedStep| step.argument("Finish").is_some();
        self.steps.last().filter(|step| finish(step)).and_then(|step| step.argument("Finish")).unwrap_or_default()
    }
}

impl RecordedStep {
    fn trim(&mut self) {
        for text in [&mut self.thought, &mut self.action, &mut self.observation] {
            *text = text.trim().to_owned();
        }
    }

    fn argument(&self, action: &str) -> Option<&str> {
        self.action.strip_prefix(action)?.strip_prefix('[')?.strip_suffix(']')
    }

    /// The titles that it was shown in place of a page, in Python's spelling.
    fn similar(&self) -> Option<&str> {
        self.observation.strip_prefix("Could not find [")?.split_once("]. Similar: ").map(|(_, list)| list)
    }
}

/// The texts of a list that Python printed.
fn read_python_list(list: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut letters = list.strip_prefix('[').unwrap().strip_suffix(']').unwrap().chars();
    while let Some(quote) = letters.find(|letter| matches!(letter, '\'' | '"')) {
        let mut text = String::new();
        loop {
            match letters.next().unwrap() {
                '\\' => text.push(letters.next().unwrap()),
                letter if letter == quote => break,
                letter => text.push(letter),
            }
        }
        texts.push(text);
    }
    texts
}

/// The model's own text at the end of a prompt.
fn continued(request: &Request) -> String {
    let RequestPayload::Generate(generate) = &request.ask else { panic!("{request} generates nothing") };
    let part = generate.prompt.parts.last().unwrap();
    assert_eq!(part.role, ChatRole::Assistant);
    let Content::Text(text) = &part.content else { panic!("{request} continues no text") };
    text.clone()
}

/// Answers as the recorded model and the recorded encyclopedia did in this step.
fn recorded_response(step: &RecordedStep, number: usize, request: &Request) -> Response {
    match &request.ask {
        RequestPayload::Generate(_) => written(format!(" {}\nAction {number}: {}", step.thought, step.action)),
        RequestPayload::Passages(_) if step.similar().is_some() => answer(Answer::Passages(Vec::new())),
        RequestPayload::Passages(_) => {
            // The page as one sentence, since only its beginning was recorded.
            let text = &step.observation;
            let page = PassageText {
                sentences: vec![text.len() as u32],
                ..PassageText::new(PassageId(number as u32), step.argument("Search").unwrap(), text.clone())
            };
            Response { passages: vec![page], ..answer(Answer::Passages(vec![PassageId(number as u32)])) }
        }
        RequestPayload::Retrieve(_) => {
            let titles = read_python_list(step.similar().unwrap());
            let texts: Vec<PassageText> =
                (0..).zip(titles).map(|(id, title)| PassageText::new(PassageId(id), title, "")).collect();
            let hit = |text: &PassageText| RetrievalHit { passage: text.passage, score: -f64::from(text.passage.0) };
            let hits = texts.iter().map(hit).collect();
            Response { passages: texts, ..answer(Answer::Retrieve(hits)) }
        }
        _ => panic!("{request} is not ReAct's"),
    }
}

/// The recorded observation in the machine's words: two texts of the recorded environment are spelled in another way.
fn expected_observation(step: &RecordedStep) -> String {
    match (step.similar(), step.argument("Search")) {
        (Some(list), Some(title)) => format!("Could not find {title}. Similar: {list}."),
        _ if step.observation == "No Results" => "No more results.".to_owned(),
        _ => step.observation.clone(),
    }
}

/// Replays an episode. Returns the lines of steps whose observation the machine gives in other words.
fn replay(react: &dyn Method, episode: &RecordedEpisode) -> Vec<usize> {
    let question = Question { text: episode.question.clone(), ..Question::default() };
    let mut number = 0;
    let mut prompts: Vec<String> = Vec::new();
    let transcript = Transcript::replay(react, "react", &question, &mut |request| {
        if matches!(request.ask, RequestPayload::Generate(_)) {
            number += 1;
            prompts.push(continued(request));
        }
        episode.steps.get(number - 1).map(|step| recorded_response(step, number, request))
    });
    let outcome = transcript.unwrap_or_else(|error| panic!("line {}: {error}", episode.line)).outcome;
    let line = episode.line;
    assert_eq!(outcome.answer.as_deref(), Some(episode.answer()), "line {line}");
    assert_eq!(outcome.iterations as usize, episode.steps.len(), "line {line}: every step is taken");
    assert_eq!((outcome.format, outcome.repairs), (Some(true), 0), "line {line}: every action is read");
    // Each prompt is the one before it with one step more.
    let mut others = Vec::new();
    for (at, step) in episode.steps.iter().enumerate() {
        let Some(next) = prompts.get(at + 1) else { break };
        let begun = format!("{} {}\nAction {}: {}\n", prompts[at], step.thought, at + 1, step.action);
        let observed = next.strip_prefix(&begun).unwrap_or_else(|| panic!("line {}: {next}", step.line));
        let expected = format!("Observation {}: {}\nThought {}:", at + 1, expected_observation(step), at + 2);
        if observed != expected {
            others.push(step.line);
        }
    }
    others
}

#[test]
fn recorded_episodes_of_react_end_in_their_answers() {
    let Some(text) = recorded("react_transcripts_hotpotqa.txt.gz") else { return };
    let episodes = RecordedEpisode::read_all(&text);
    let steps: usize = episodes.iter().map(|episode| episode.steps.len()).sum();
    assert_eq!((episodes.len(), steps), (102, 369));
    // The recorded agent had six steps and saw ten titles and one paragraph of a page.
    let parameters = json!({"generator": "g", "retriever": "r", "most_steps": 6, "similar": 10, "sentences": 1});
    let react = method("react", parameters);
    let mut others = Vec::new();
    let mut halted = 0;
    for episode in &episodes {
        others.extend(replay(&*react, episode));
        halted += usize::from(episode.steps.last().unwrap().argument("Finish").is_none());
    }
    assert_eq!(halted, 10);
    eprintln!("{} episodes replayed; observations in other words at the lines {others:?}", episodes.len());
    // Look-ups in whole pages, of which only the beginnings were recorded.
    let lookups = |line: &usize| text.lines().nth(*line).unwrap().contains(": Lookup[");
    assert!(others.iter().all(lookups), "{others:?}");
    assert_eq!(others.len(), 5);
}

/// Drives least-to-most over a recorded question and its parts. Returns the queries.
fn queries_of(sequential: &dyn Method, question: &str, parts: &[&Value]) -> Vec<String> {
    let text = |part: &Value, key: &str| part[key].as_str().unwrap().to_owned();
    let questions: Vec<String> = parts.iter().map(|part| text(part, "question_text")).collect();
    let mut answers = parts.iter().map(|part| part["answer"][0].as_str().unwrap().to_owned());
    let mut queries = Vec::new();
    let question = Question { text: question.to_owned(), ..Question::default() };
    let transcript = Transcript::replay(sequential, "decompose", &question, &mut |request| {
        Some(match &request.ask {
            RequestPayload::Retrieve(retrieve) => {
                queries.push(retrieve.query.clone());
                answer(Answer::Retrieve(Vec::new()))
            }
            _ if &*request.step.0 == "decomposition" => written(json!({"decomposed_questions": questions}).to_string()),
            _ => written(json!({"answer": answers.next().unwrap_or_default()}).to_string()),
        })
    });
    transcript.unwrap();
    queries
}

#[test]
fn recorded_decompositions_have_their_references_filled() {
    let sequential = method("decompose", json!({"generator": "g", "retriever": "r", "mode": "sequential"}));
    for (file, expected) in
        [("decomposition_trees_hotpotqa.jsonl.gz", 140), ("decomposition_trees_musique.jsonl.gz", 278)]
    {
        let Some(text) = recorded(file) else { return };
        let mut filled = 0;
        for (line, tree) in (1..).zip(text.lines()) {
            let nodes: Vec<Value> = serde_json::from_str(tree).unwrap();
            for node in &nodes {
                let sons = node["sons"].as_array().unwrap();
                let parts: Vec<&Value> = sons.iter().map(|son| &nodes[son.as_u64().unwrap() as usize]).collect();
                if parts.is_empty() {
                    continue;
                }
                let queries = queries_of(&*sequential, node["question"].as_str().unwrap(), &parts);
                for (query, part) in queries.iter().zip(&parts) {
                    assert_eq!(Some(query.as_str()), part["question"].as_str().map(str::trim), "{file}, line {line}");
                    filled += usize::from(part["question_text"] != part["question"]);
                }
                assert_eq!(queries.len(), parts.len(), "{file}, line {line}");
            }
        }
        assert_eq!(filled, expected, "{file}: references filled");
    }
}
