//! Writes a body of JSON, field by field, into one buffer.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};

/// A body under construction.
pub(super) struct BodyWriter {
    bytes: Vec<u8>,
    /// The fields written, without the settings' own.
    written: Vec<&'static str>,
}

/// A body whose number of choices and seed may change from request to request.
pub(super) struct RequestBody {
    bytes: Bytes,
    /// The bytes before the fields that change.
    head: usize,
    seed: Option<u64>,
    /// The ask that `bytes` holds: choices, and choices there before.
    holds: Option<(u32, u32)>,
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
        Self { bytes, written: Vec::with_capacity(16) }
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
        let head = self.bytes.len();
        RequestBody { bytes: Bytes::from(self.bytes), head, seed, holds: None }
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
    pub(super) fn bytes_for(&mut self, ask: u32, have: u32) -> Bytes {
        if self.holds != Some((ask, have)) {
            let mut tail = String::new();
            if ask > 1 {
                tail += &format!(",\"n\":{ask}");
            }
            if let Some(seed) = self.seed {
                tail += &format!(",\"seed\":{}", seed.wrapping_add(u64::from(have)));
            }
            tail.push('}');
            // The only owner's buffer is extended in place; otherwise its head is copied.
            let mut bytes = match std::mem::take(&mut self.bytes).try_into_mut() {
                Ok(bytes) => bytes,
                Err(shared) => bytes::BytesMut::from(&shared[..self.head]),
            };
            bytes.truncate(self.head);
            bytes.extend_from_slice(tail.as_bytes());
            self.bytes = bytes.freeze();
            self.holds = Some((ask, have));
        }
        self.bytes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calls_own_field_wins() {
        let extra: Map<String, Value> = serde_json::from_str(r#"{"a":1,"seed":9,"temperature":2.0}"#).unwrap();
        let mut writer = BodyWriter::for_model("m\"x", 0);
        writer.add_some("temperature", Some(0.5));
        writer.add_some("top_p", None::<f64>);
        writer.add_json("t", "[1]");
        let mut body = writer.finish_body(&extra, Some(5));
        assert_eq!(body.bytes_for(1, 0), r#"{"model":"m\"x","temperature":0.5,"t":[1],"a":1,"seed":5}"#);
        assert_eq!(body.bytes_for(3, 2), r#"{"model":"m\"x","temperature":0.5,"t":[1],"a":1,"n":3,"seed":7}"#);
        let mut plain = BodyWriter::for_model("m", 0).finish_body(&extra, None);
        assert_eq!(plain.bytes_for(1, 0), r#"{"model":"m","a":1,"seed":9,"temperature":2.0}"#);
        let (one, two) = (plain.bytes_for(1, 0), plain.bytes_for(1, 0));
        assert_eq!(one.as_ptr(), two.as_ptr(), "a body is built once");
    }
}
