//! Writes a body of JSON, field by field. Long texts that other bodies have, too, are held by reference.
//!
//! ```text
//!   own bytes:   {"model":"m","messages":[{"role":"user","content":"   \n\nQuestion: who?"}]   }
//!                                                                    ^                       ^
//!   in between:                                          the few-shot text, shared     "n" and "seed", by request
//! ```

use crate::exchange::BodyChunks;
use crate::text::{PromptText, TextPiece, append_escaped};
use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

/// A body under construction.
pub(super) struct BodyWriter {
    bytes: Vec<u8>,
    /// Shared texts, each with its place in `bytes`.
    shared: Vec<(usize, Bytes)>,
    /// The fields written, without the settings' own.
    written: Vec<&'static str>,
}

/// A body whose number of choices and seed may change from request to request.
pub(super) struct RequestBody {
    /// All but shared texts and the fields that change, with the brace at its end.
    own: Bytes,
    shared: Vec<(usize, Bytes)>,
    seed: Option<u64>,
}

impl BodyWriter {
    /// A body for a model, with room for `room` bytes of texts.
    pub(super) fn for_model(model: &str, room: usize) -> Self {
        let mut writer = Self::without_model(room);
        writer.add("model", &model);
        writer
    }

    /// A body that names no model, with room for `room` bytes of texts.
    pub(super) fn without_model(room: usize) -> Self {
        let mut bytes = Vec::with_capacity(room + room / 16 + 256);
        bytes.push(b'{');
        Self { bytes, shared: Vec::new(), written: Vec::with_capacity(16) }
    }

    /// Adds a field.
    pub(super) fn add<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) {
        let bytes = self.begin_field(name);
        serde_json::to_writer(bytes, value).expect("this is a bug: plain data are JSON, and a vector takes them");
    }

    /// Adds a field if there is a value.
    pub(super) fn add_some<T: Serialize>(&mut self, name: &'static str, value: Option<T>) {
        if let Some(value) = value {
            self.add(name, &value);
        }
    }

    /// Adds a field whose value is JSON already.
    pub(super) fn add_json(&mut self, name: &'static str, json: &str) {
        self.begin_field(name).extend_from_slice(json.as_bytes());
    }

    /// Adds a field with a text.
    pub(super) fn add_text(&mut self, name: &'static str, text: &PromptText) {
        self.begin_field(name);
        self.append_text(text);
    }

    /// Adds the messages of a chat, each a role and a text.
    pub(super) fn add_messages<'a>(&mut self, messages: impl IntoIterator<Item = (&'a str, &'a PromptText)>) {
        self.begin_field("messages");
        let mut before = b'[';
        for (role, text) in messages {
            self.bytes.push(before);
            self.bytes.extend_from_slice(b"{\"role\":\"");
            self.bytes.extend_from_slice(role.as_bytes());
            self.bytes.extend_from_slice(b"\",\"content\":");
            self.append_text(text);
            self.bytes.push(b'}');
            before = b',';
        }
        if before == b'[' {
            self.bytes.push(b'[');
        }
        self.bytes.push(b']');
    }

    fn append_text(&mut self, text: &PromptText) {
        self.bytes.push(b'"');
        for piece in text.pieces() {
            match piece {
                TextPiece::Own(text) => append_escaped(text, &mut self.bytes),
                TextPiece::Shared(shared) if shared.is_referred_to() => {
                    self.shared.push((self.bytes.len(), shared.escaped()));
                }
                TextPiece::Shared(shared) => self.bytes.extend_from_slice(&shared.escaped()),
            }
        }
        self.bytes.push(b'"');
    }

    /// Ends the body with the settings' own fields, without those that the call wrote. `seed` is written for each
    /// request anew.
    pub(super) fn finish_body(mut self, extra: &Map<String, Value>, seed: Option<u64>) -> RequestBody {
        if seed.is_some() {
            self.written.push("seed");
        }
        for (name, value) in extra {
            if !self.written.iter().any(|written| written == name) {
                self.bytes.push(b',');
                let field = (Value::from(name.as_str()), value);
                self.bytes.extend_from_slice(format!("{}:{}", field.0, field.1).as_bytes());
            }
        }
        self.bytes.push(b'}');
        // Ten thousand calls in flight would keep room that none of them needs.
        self.bytes.shrink_to_fit();
        RequestBody { own: Bytes::from(self.bytes), shared: self.shared, seed }
    }

    fn begin_field(&mut self, name: &'static str) -> &mut Vec<u8> {
        if !self.written.is_empty() {
            self.bytes.push(b',');
        }
        self.written.push(name);
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b"\":");
        &mut self.bytes
    }
}

impl RequestBody {
    /// The body that asks for `ask` choices when `have` are there. A seed counts on with the choices.
    pub(super) fn chunks_for(&self, ask: u32, have: u32) -> BodyChunks {
        let mut chunks = Vec::with_capacity(2 * self.shared.len() + 2);
        let mut begin = 0;
        for (place, shared) in &self.shared {
            if begin < *place {
                chunks.push(self.own.slice(begin..*place));
            }
            chunks.push(shared.clone());
            begin = *place;
        }
        let mut tail = String::new();
        if ask > 1 {
            tail += &format!(",\"n\":{ask}");
        }
        if let Some(seed) = self.seed {
            tail += &format!(",\"seed\":{}", seed.wrapping_add(u64::from(have)));
        }
        if tail.is_empty() {
            chunks.push(self.own.slice(begin..));
        } else {
            chunks.extend([self.own.slice(begin..self.own.len() - 1), Bytes::from(tail + "}")]);
        }
        BodyChunks::new(chunks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::SharedText;

    #[test]
    fn a_calls_own_field_wins() {
        let extra: Map<String, Value> = serde_json::from_str(r#"{"a":1,"seed":9,"temperature":2.0}"#).unwrap();
        let mut writer = BodyWriter::for_model("m\"x", 0);
        writer.add_some("temperature", Some(0.5));
        writer.add_some("top_p", None::<f64>);
        writer.add_json("t", "[1]");
        let body = writer.finish_body(&extra, Some(5));
        let bytes =
            |body: &RequestBody, ask, have| String::from_utf8(body.chunks_for(ask, have).to_bytes().to_vec()).unwrap();
        assert_eq!(bytes(&body, 1, 0), r#"{"model":"m\"x","temperature":0.5,"t":[1],"a":1,"seed":5}"#);
        assert_eq!(bytes(&body, 3, 2), r#"{"model":"m\"x","temperature":0.5,"t":[1],"a":1,"n":3,"seed":7}"#);
        let plain = BodyWriter::for_model("m", 0).finish_body(&extra, None);
        assert_eq!(bytes(&plain, 1, 0), r#"{"model":"m","a":1,"seed":9,"temperature":2.0}"#);
    }

    /// The bytes are those of a message in one piece, and the shared ones are not copied.
    #[test]
    fn shared_texts_stand_in_a_body_by_reference() {
        let shot = SharedText::new("Say \"yes\".\n".repeat(100).into());
        let mut text = PromptText::from("First \"this\": ");
        text.push_shared(&shot);
        text.push_shared(&shot);
        text.push_shared(&SharedText::new("\n\"Short\"".into()));
        text.push("\nWho?".to_owned());
        let body_of = |text: &PromptText| {
            let mut writer = BodyWriter::for_model("m", 0);
            writer.add_messages([("system", &PromptText::from("s")), ("user", text)]);
            writer.add("max_tokens", &5);
            writer.finish_body(&Map::new(), None)
        };
        let (pieces, whole) = (body_of(&text), body_of(&PromptText::from(text.to_string())));
        assert_eq!(pieces.chunks_for(2, 0).to_bytes(), whole.chunks_for(2, 0).to_bytes());
        let expected = serde_json::json!([
            {"role": "system", "content": "s"}, {"role": "user", "content": text.to_string()}
        ]);
        let json: Value = serde_json::from_slice(&pieces.chunks_for(1, 0).to_bytes()).unwrap();
        assert_eq!(json["messages"], expected);
        let shared = shot.escaped();
        let found = |body: &RequestBody| {
            body.chunks_for(1, 0).chunks().iter().filter(|chunk| chunk.as_ptr() == shared.as_ptr()).count()
        };
        assert_eq!((found(&pieces), found(&whole)), (2, 0));
        assert_eq!(pieces.chunks_for(1, 0).chunks().len(), 4, "nothing stands between the two");
        let seeded = |text: &PromptText| {
            let mut writer = BodyWriter::for_model("m", 0);
            writer.add_text("prompt", text);
            writer.finish_body(&Map::new(), Some(7)).chunks_for(3, 1).to_bytes()
        };
        let bytes = seeded(&text);
        assert_eq!(bytes, seeded(&PromptText::from(text.to_string())));
        assert!(bytes.ends_with(br#"Who?","n":3,"seed":8}"#), "{bytes:?}");
        assert!(pieces.own.len() < 200);
    }
}
