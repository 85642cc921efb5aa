//! The files themselves.

/// A model's folder.
pub(crate) struct Model {
    pub(crate) name: &'static str,
    /// Names and contents.
    pub(crate) files: &'static [(&'static str, &'static [u8])],
}

macro_rules! model {
    ($name:literal) => {
        model!($name, "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    };
    ($name:literal, $($file:literal),+) => {
        Model { name: $name, files: &[$(($file, include_bytes!(concat!("../files/", $name, "/", $file)))),+] }
    };
}

/// Every model, by name.
pub(crate) static MODELS: &[Model] = &[
    model!("encoder"),
    model!("filter"),
    model!("labeler"),
    model!("reader"),
    model!("reranker"),
    model!("scorer"),
    model!("writer"),
];
