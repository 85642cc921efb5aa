//! Fills a JSON schema with an answer: every required and every described property, by its name and its type.

use serde_json::{Map, Value, json};

/// The texts that a schema's properties are filled with.
#[derive(Debug, Clone)]
pub(crate) struct SchemaTexts {
    /// The answer, or `unknown`.
    pub(crate) answer: String,
    /// The chain of thought.
    pub(crate) reasoning: String,
    /// The next thing to look up; empty if nothing is missing.
    pub(crate) query: String,
    /// Titles of the passages that were used.
    pub(crate) titles: Vec<String>,
    /// Whether the facts give an answer.
    pub(crate) is_answered: bool,
}

/// References followed, and tables in tables, at most.
const DEEPEST: usize = 16;

impl SchemaTexts {
    /// The document for `json_object`, which names no properties; a prompt may call the reasoning `thought`.
    pub(crate) fn plain_object(&self, names_thought: bool) -> Value {
        let reasoning = if names_thought { "thought" } else { "reasoning" };
        json!({reasoning: self.reasoning, "answer": self.answer})
    }

    /// A document that the schema allows. Of a schema, types, properties, items, enumerations, constants, references
    /// and the first alternative are understood; lengths and patterns of texts are not.
    pub(crate) fn fill_schema(&self, schema: &Value) -> Value {
        self.fill_node(schema, schema, "answer", 0)
    }

    fn fill_node(&self, node: &Value, root: &Value, name: &str, depth: usize) -> Value {
        if depth > DEEPEST {
            return Value::Null;
        }
        if let Some(reference) = node["$ref"].as_str() {
            let target = root.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null);
            return self.fill_node(target, root, name, depth + 1);
        }
        if let Some(constant) = node.get("const") {
            return constant.clone();
        }
        if let Some(values) = node["enum"].as_array() {
            let wanted = self.text_for(name);
            let same = values.iter().find(|value| value.as_str().is_some_and(|v| v.eq_ignore_ascii_case(&wanted)));
            return same.or(values.first()).cloned().unwrap_or(Value::Null);
        }
        for combined in ["anyOf", "oneOf", "allOf"] {
            if let Some(first) = node[combined].as_array().and_then(|nodes| nodes.first()) {
                return self.fill_node(first, root, name, depth + 1);
            }
        }
        let kind = node["type"].as_str().or_else(|| node["type"][0].as_str());
        match kind {
            Some("object") => self.fill_object(node, root, depth),
            Some("array") => self.fill_array(node, root, name, depth),
            Some("boolean") => Value::Bool(if self.answer == "no" { false } else { self.is_answered }),
            Some("integer") => json!(node["minimum"].as_i64().unwrap_or(0)),
            Some("number") => json!(node["minimum"].as_f64().unwrap_or(0.5)),
            Some("null") => Value::Null,
            _ if node["properties"].is_object() => self.fill_object(node, root, depth),
            _ => Value::String(self.text_for(name)),
        }
    }

    fn fill_object(&self, node: &Value, root: &Value, depth: usize) -> Value {
        let properties = node["properties"].as_object().into_iter().flatten();
        let fields = properties.map(|(name, inner)| (name.clone(), self.fill_node(inner, root, name, depth + 1)));
        Value::Object(fields.collect::<Map<_, _>>())
    }

    fn fill_array(&self, node: &Value, root: &Value, name: &str, depth: usize) -> Value {
        let items = match node["items"]["$ref"].as_str() {
            Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null),
            None => &node["items"],
        };
        let least = node["minItems"].as_u64().unwrap_or(0) as usize;
        let most = node["maxItems"].as_u64().unwrap_or(u64::MAX) as usize;
        let is_text = matches!(items["type"].as_str(), Some("string") | None) && items.get("enum").is_none();
        let texts: Vec<String> = match is_text {
            true if is_query(name) => [self.query.clone()].into_iter().filter(|query| !query.is_empty()).collect(),
            true => self.titles.clone(),
            false => vec![],
        };
        let mut values: Vec<Value> = texts.into_iter().map(Value::String).collect();
        if values.is_empty() && !is_text {
            values.push(self.fill_node(items, root, name, depth + 1));
        }
        while values.len() < least.min(DEEPEST) {
            values.push(self.fill_node(items, root, name, depth + 1));
        }
        values.truncate(most);
        Value::Array(values)
    }

    /// The text for a property's name.
    fn text_for(&self, name: &str) -> String {
        let name = name.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if has(&["reason", "thought", "rationale", "explanation", "steps", "analysis"]) {
            self.reasoning.clone()
        } else if is_query(&name) {
            self.query.clone()
        } else if has(&["title", "support", "evidence", "citation", "source", "passage"]) {
            self.titles.first().cloned().unwrap_or_default()
        } else {
            self.answer.clone()
        }
    }
}

/// Whether a property is for what should be looked up next.
fn is_query(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["question", "query", "queries", "search", "missing", "next"].iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_filled_by_names_and_types() {
        let texts = SchemaTexts {
            answer: "Yes".into(),
            reasoning: "Because.".into(),
            query: String::new(),
            titles: vec!["Pale Harbor".into()],
            is_answered: true,
        };
        let schema = json!({
            "type": "object",
            "properties": {
                "thought": {"type": "string"},
                "verdict": {"enum": ["no", "yes"]},
                "sources": {"type": "array", "items": {"$ref": "#/$defs/source"}},
                "titles": {"type": ["array"], "items": {"type": "string"}},
                "confident": {"type": "boolean"},
                "rank": {"type": "integer", "minimum": 1}
            },
            "$defs": {"source": {"type": "object", "properties": {"title": {"type": "string"}}}}
        });
        let wanted = json!({
            "thought": "Because.", "verdict": "yes", "sources": [{"title": "Pale Harbor"}],
            "titles": ["Pale Harbor"], "confident": true, "rank": 1
        });
        assert_eq!(texts.fill_schema(&schema), wanted);
    }
}
