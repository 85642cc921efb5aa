//! The baselines that read and reason, over a small generated world with the simulated model: each gets answers in the
//! forms that its prompts ask for. What is answered says that programs work, and nothing about the methods.

#[path = "support/http.rs"]
#[expect(dead_code, reason = "other tests look at more of a reply")]
mod http;

use hopeval_methods::request::{GeneratePayload, PassageSet, Sampling, TextFormat};
use hopeval_methods::response::{FinishReason, Generation, RetrievalHit};
use hopeval_methods::{
    Answer, AnswerWork, ChatRole, Content, FragmentDigest, Method, MethodSetting, PassageForm, PassageId, PassageText,
    Question, Request, RequestPayload, Response, Transcript, build_method,
};
use hopeval_simulated_llm::{SimulatedServer, SimulationSettings};
use hopeval_world::record::Passage;
use hopeval_world::{World, WorldSettings, WorldSplit};
use http::post;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A world with a retriever over its words, and a server that answers for the language model.
struct SimulatedServices {
    server: SimulatedServer,
    passages: Vec<Passage>,
    words: Vec<BTreeSet<String>>,
    titles: Vec<BTreeSet<String>>,
    fragments: BTreeMap<FragmentDigest, Arc<str>>,
}

fn words_of(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

impl SimulatedServices {
    fn new(world: &World) -> Self {
        let server = SimulatedServer::start(SimulationSettings::default()).expect("a server");
        let passages: Vec<Passage> = world.passages().collect();
        let words = passages.iter().map(|passage| words_of(&format!("{} {}", passage.title, passage.text))).collect();
        let titles = passages.iter().map(|passage| words_of(&passage.title)).collect();
        Self { server, passages, words, titles, fragments: BTreeMap::new() }
    }

    fn answer(&self, request: &Request) -> Response {
        let (found, read) = match &request.ask {
            RequestPayload::Generate(generate) => {
                return Response::answer(Answer::Generate(self.write(generate)), AnswerWork::default());
            }
            RequestPayload::Retrieve(retrieve) => {
                let hits = self.search(&retrieve.query, retrieve.k as usize);
                let found = hits.iter().map(|hit| hit.passage).collect();
                (Answer::Retrieve(hits), self.texts(found, retrieve.read))
            }
            RequestPayload::Passages(asked) => {
                let found = self.titled(&asked.passages);
                (Answer::Passages(found.clone()), self.texts(found, asked.read))
            }
            _ => panic!("{request} is none of a baseline's"),
        };
        Response { passages: read, ..Response::answer(found, AnswerWork::default()) }
    }

    /// The passages that share the rarest words with a query; those of titles count three times.
    fn search(&self, query: &str, k: usize) -> Vec<RetrievalHit> {
        let weigh = |word: &String| {
            let holders = self.words.iter().filter(|words| words.contains(word)).count();
            (word.clone(), (self.words.len() as f64 / (1.0 + holders as f64)).ln().max(0.0))
        };
        let weights: Vec<(String, f64)> = words_of(query).iter().map(weigh).collect();
        let score = |words: &BTreeSet<String>| -> f64 {
            weights.iter().filter(|(word, _)| words.contains(word)).map(|(_, weight)| weight).sum()
        };
        let mut hits: Vec<RetrievalHit> = (0..)
            .zip(self.words.iter().zip(&self.titles))
            .map(|(id, (words, title))| (PassageId(id), score(words) + 2.0 * score(title)))
            .map(|(passage, score)| RetrievalHit { passage, score })
            .collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.passage.cmp(&b.passage)));
        hits.truncate(k);
        hits
    }

    fn titled(&self, set: &PassageSet) -> Vec<PassageId> {
        let PassageSet::FoldedTitles(titles) = set else { panic!("{set} is not asked by default") };
        let wanted: BTreeSet<String> = titles.iter().map(|title| title.to_lowercase()).collect();
        let has = |passage: &Passage| wanted.contains(&passage.title.to_lowercase());
        (0..).zip(&self.passages).filter(|(_, passage)| has(passage)).map(|(id, _)| PassageId(id)).collect()
    }

    fn texts(&self, found: Vec<PassageId>, read: bool) -> Vec<PassageText> {
        let text = |id: PassageId| {
            let Passage { title, text, sentences, .. } = &self.passages[id.0 as usize];
            PassageText { sentences: sentences.clone(), ..PassageText::new(id, title, text) }
        };
        if read { found.into_iter().map(text).collect() } else { Vec::new() }
    }

    fn shown(&self, content: &Content) -> String {
        match content {
            Content::Text(text) => text.clone(),
            Content::Fragment(digest) => self.fragments[digest].to_string(),
            Content::Passage { passage, form: PassageForm::TitleAndText { between } } => {
                let Passage { title, text, .. } = &self.passages[passage.0 as usize];
                format!("{title}{between}{text}")
            }
            _ => panic!("{content} is not shown by default"),
        }
    }

    /// Sends a prompt as a chat.
    fn write(&self, generate: &GeneratePayload) -> Generation {
        let mut messages: Vec<(&str, String)> = Vec::new();
        for part in &generate.prompt.parts {
            let role = match part.role {
                ChatRole::System => "system",
                ChatRole::User => "user",
                ChatRole::Assistant => "assistant",
            };
            let text = self.shown(&part.content);
            match messages.last_mut().filter(|(last, _)| *last == role) {
                Some((_, shown)) => shown.push_str(&text),
                None => messages.push((role, text)),
            }
        }
        let messages: Vec<Value> =
            messages.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect();
        let mut body = json!({
            "model": "simulated-llm", "messages": messages, "max_tokens": generate.max_tokens, "stop": generate.stop,
        });
        if generate.sampling == Sampling::Greedy {
            body["temperature"] = 0.into();
        }
        if generate.format == TextFormat::Json {
            body["response_format"] = json!({"type": "json_object"});
        }
        let reply = post(self.server.address(), "/v1/chat/completions", &[], &body.to_string()).expect("a reply");
        assert_eq!(reply.status, 200, "{}", reply.text());
        let choice = reply.json()["choices"][0].clone();
        let text = choice["message"]["content"].as_str().expect("a text").to_owned();
        let finish = if choice["finish_reason"] == "length" { FinishReason::Length } else { FinishReason::Stop };
        Generation::new(text, finish)
    }
}

/// The questions that a method answers rightly, of all.
fn share_answered(services: &mut SimulatedServices, world: &World, method: &dyn Method) -> f64 {
    services.fragments = method.fragments().iter().map(|f| (f.digest(), Arc::clone(f.text()))).collect();
    let (mut right, mut all) = (0, 0);
    for asked in world.questions() {
        let asked = asked.expect("a question");
        let question = Question { id: asked.id, text: asked.text, ..Question::default() };
        let replayed = Transcript::replay(method, "c", &question, &mut |request| Some(services.answer(request)));
        let outcome = replayed.expect("every request is answered").outcome;
        let answer = outcome.answer.unwrap_or_else(|| panic!("{}: {:?}", method.kind(), outcome.status));
        all += 1;
        right += u32::from(asked.answers.contains(&answer));
    }
    f64::from(right) / f64::from(all)
}

/// Each baseline, with the least share of a world's questions that it must answer. Self-Ask with a reader is not here:
/// the model takes no facts from answers without a sentence around them.
#[test]
fn baselines_get_answers_in_their_forms() {
    let world = World::new(WorldSettings::new(40, 400, 11, WorldSplit::Eval)).expect("a world");
    let mut services = SimulatedServices::new(&world);
    let configurations = [
        ("decompose", json!({"generator": "g", "retriever": "r"}), 0.2),
        ("decompose", json!({"generator": "g", "retriever": "r", "mode": "sequential"}), 0.2),
        ("iter_retgen", json!({"generator": "g", "retriever": "r"}), 0.2),
        ("iter_retgen", json!({"generator": "g", "retriever": "r", "as": "code"}), 0.2),
        ("self_ask", json!({"generator": "g", "retriever": "r", "snippet_sentences": 20}), 0.2),
        ("self_ask", json!({"generator": "g", "retriever": "r", "evidence": "documents"}), 0.2),
        ("react", json!({"generator": "g", "retriever": "r", "sentences": 20}), 0.2),
    ];
    for (kind, parameters, least) in configurations {
        let method = build_method(kind, &parameters, &MethodSetting::of_corpus(400)).expect("a method");
        let share = share_answered(&mut services, &world, &*method);
        assert!(share >= least, "{kind} {parameters}: {share} answered");
    }
}
