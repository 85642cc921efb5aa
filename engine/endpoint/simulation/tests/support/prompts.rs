//! Prompts and bodies over a small generated world.

use hopeval_world::record::Question;
use hopeval_world::{World, WorldSettings, WorldSplit};
use serde_json::{Value, json};

/// A question with its prompt.
pub(crate) struct AskedPrompt {
    pub(crate) question: Question,
    pub(crate) prompt: String,
}

/// The first `count` questions of a world, each with its gold passages in a prompt.
pub(crate) fn gold_prompts(count: u64) -> Vec<AskedPrompt> {
    let world = World::new(WorldSettings::new(count, 2000, 3, WorldSplit::Eval)).expect("a world");
    let write = |question: Question| {
        let passages = question.gold.iter().filter_map(|gold| world.passage_by_id(&gold.id));
        let passages: String =
            passages.map(|passage| format!("Wikipedia Title: {}\n{}\n\n", passage.title, passage.text)).collect();
        let prompt = format!("{passages}Question: {}\nAnswer:", question.text);
        AskedPrompt { question, prompt }
    };
    world.questions().map(|question| write(question.expect("a question"))).collect()
}

/// The body of a chat.
pub(crate) fn chat(prompt: &str) -> Value {
    json!({"model": "simulated-llm", "temperature": 0, "messages": [{"role": "user", "content": prompt}]})
}

/// A body with further fields.
pub(crate) fn with(mut body: Value, fields: Value) -> Value {
    for (name, value) in fields.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    body
}
